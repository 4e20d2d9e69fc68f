"""Texts of mig-parted: what is read, and what is refused with path, place and spelling."""

from __future__ import annotations

import pytest

from shared.domain.errors import Problem, RefusedError
from shared.geometry import load
from shared.geometry.config import GeometryConfig, Row, Share


def one(row: str, version: str = "version: v1") -> str:
    """A text with one name that has one row, written as a flow mapping."""
    return f"{version}\nmig-configs:\n  any:\n  - {{{row}}}\n"


def profiles(devices: str) -> str:
    """A text with these mig-devices on all GPUs."""
    return one(f"devices: all, mig-enabled: true, mig-devices: {devices}")


def devices(written: str) -> str:
    """A text that switches MIG off on these devices."""
    return one(f"devices: {written}, mig-enabled: false")


def filters(written: str) -> str:
    """A text with this device filter."""
    return one(f"device-filter: {written}, devices: all, mig-enabled: false")


def refused(text: str) -> tuple[Problem, ...]:
    """The problems that a text is refused with."""
    with pytest.raises(RefusedError) as caught:
        load.load(text)
    return caught.value.problems


OFF = "devices: all, mig-enabled: false"

ACCEPTED = [
    ("empty-text", ""),
    ("comment-only", "# nothing yet\n"),
    ("version-alone", "version: v1\n"),
    ("devices-all", devices("all")),
    ("devices-index", devices("[7]")),
    ("devices-none", devices("[]")),
    ("devices-negative", devices("[-1]")),
    ("mode-without-instances", profiles("{}")),
    ("off-with-empty-devices", one(f"{OFF}, mig-devices: {{}}")),
    ("off-with-nothing-under-devices", one(f"{OFF}, mig-devices: ")),
    ("nothing-as-a-filter", filters("null")),
    ("plain-profile", profiles("{1g.5gb: 7}")),
    ("media", profiles("{1g.10gb+me: 1}")),
    ("no-media", profiles("{1g.24gb-me: 3}")),
    ("all-media", profiles("{1g.24gb+me.all: 1}")),
    ("graphics", profiles("{1g.24gb+gfx: 4}")),
    ("compute-instances", profiles("{1c.3g.20gb: 3}")),
    ("more-than-fit", profiles("{1g.5gb: 9}")),
    ("a-zero-among-others", profiles("{1g.5gb: 0, 2g.10gb: 1}")),
    ("filter-text", filters('"0x20B710DE"')),
    ("filter-list", filters('["0x20B010DE", "0x20b110de"]')),
    ("json", '{"version": "v1", "mig-configs": {"a": [{"devices": "all", "mig-enabled": false}]}}'),
    ("byte-order-mark", "\ufeff" + devices("all")),
    ("windows-lines", devices("all").replace("\n", "\r\n")),
]


@pytest.mark.parametrize("text", [text for _, text in ACCEPTED], ids=[name for name, _ in ACCEPTED])
def test_what_mig_parted_accepts_is_accepted(text: str) -> None:
    """B2: the peer's accepted texts load here."""
    load.load(text)


# id, text, path, a part of the sentence with its suggestion
REFUSED = [
    ("version-missing", one(OFF, version="# v1"), "", "version is missing (write version: v1)"),
    ("on-with-nothing-under-devices", profiles(""), "mig-configs.any[0]", "mig-devices is missing"),
    (
        "filter-empty",
        filters("''"),
        "mig-configs.any[0].device-filter",
        "(leave device-filter out)",
    ),
    ("version-2", one(OFF, version="version: v2"), "version", "accepted: v1"),
    ("devices-number", devices("7"), "mig-configs.any[0].devices", "(write [7])"),
    ("devices-quoted-number", devices('"0"'), "mig-configs.any[0].devices", "(write [0])"),
    ("devices-quoted-item", devices('["0"]'), "mig-configs.any[0].devices[0]", "(write 0)"),
    ("devices-capitals", devices("ALL"), "mig-configs.any[0].devices", "(write all)"),
    ("devices-missing", one("mig-enabled: false"), "mig-configs.any[0]", "devices is missing"),
    ("mode-missing", one("devices: all"), "mig-configs.any[0]", "mig-enabled is missing"),
    (
        "unknown-field-in-a-row",
        one(f"{OFF}, mig-device: {{}}"),
        "mig-configs.any[0].mig-device",
        'did you mean "mig-devices"?',
    ),
    (
        "unknown-field-at-the-top",
        "version: v1\nmig_configs: {}\n",
        "mig_configs",
        'did you mean "mig-configs"?',
    ),
    (
        "mode-without-devices",
        one("devices: all, mig-enabled: true"),
        "mig-configs.any[0]",
        "mig-devices is missing (write mig-devices: {}",
    ),
    (
        "devices-without-mode",
        one(f"{OFF}, mig-devices: {{1g.5gb: 7}}"),
        "mig-configs.any[0].mig-devices",
        "mig-enabled is false",
    ),
    (
        "mode-as-yes",
        one("devices: all, mig-enabled: yes, mig-devices: {}"),
        "mig-configs.any[0].mig-enabled",
        "(write true)",
    ),
    (
        "profile-as-a-resource",
        profiles("{1g.10gb.me: 1}"),
        "mig-configs.any[0].mig-devices.1g.10gb.me",
        "(write 1g.10gb+me)",
    ),
    (
        "profile-with-prefix",
        profiles("{mig-1g.5gb: 1}"),
        "mig-configs.any[0].mig-devices.mig-1g.5gb",
        "(write 1g.5gb)",
    ),
    (
        "profile-in-capitals",
        profiles("{1G.5GB: 1}"),
        "mig-configs.any[0].mig-devices.1G.5GB",
        "(write 1g.5gb)",
    ),
    (
        "count-zero-alone",
        profiles("{1g.5gb: 0}"),
        "mig-configs.any[0].mig-devices",
        "every count is 0",
    ),
    (
        "count-negative",
        profiles("{1g.5gb: -1}"),
        "mig-configs.any[0].mig-devices.1g.5gb",
        "a whole number from 0 up",
    ),
    (
        "count-quoted",
        profiles('{1g.5gb: "7"}'),
        "mig-configs.any[0].mig-devices.1g.5gb",
        "(write 7)",
    ),
    (
        "F29-filter-unquoted",
        filters("0x20B710DE"),
        "mig-configs.any[0].device-filter",
        'found the number 0x20B710DE, accepted is a PCI id in quotes, like "0x20B210DE",'
        ' or a list of them (quote it: write "0x20B710DE")',
    ),
    (
        "filter-unquoted-in-a-list",
        filters("[0x20B710DE]"),
        "mig-configs.any[0].device-filter[0]",
        'write "0x20B710DE"',
    ),
    (
        "filter-without-vendor",
        filters('"0x20b7"'),
        "mig-configs.any[0].device-filter",
        'write "0x20B710DE"',
    ),
    (
        "filter-empty-text",
        filters("[]"),
        "mig-configs.any[0].device-filter",
        "leave device-filter out",
    ),
    ("no-names", "version: v1\nmig-configs: {}\n", "mig-configs", "the mapping is empty"),
    ("no-names-null", "version: v1\nmig-configs:\n", "mig-configs", "found nothing"),
    ("no-rows", "version: v1\nmig-configs: {a: []}\n", "mig-configs.a", "the list is empty"),
    ("not-a-mapping", "all-1g.5gb\n", "", "accepted is a mapping with version, mig-configs"),
    (
        "profile-twice",
        profiles("{1g.5gb: 1, 1g.5gb: 2}"),
        "mig-configs.any[0].mig-devices.1g.5gb",
        "stands twice",
    ),
    ("two-documents", devices("all") + "---\n" + devices("all"), "", "a second YAML document"),
    (
        "manifest",
        "apiVersion: v1\nkind: ConfigMap\ndata: {config.yaml: ''}\n",
        "",
        "paste only the text that stands under data.<key>, here data.config.yaml",
    ),
]


@pytest.mark.parametrize(
    ("text", "path", "part"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_is_refused_says_where_and_what_to_write(text: str, path: str, part: str) -> None:
    """B2 and ours: one problem at this path holds the sentence."""
    said = [problem for problem in refused(text) if problem.path == path]
    assert any(part in problem.sentence() for problem in said), refused(text)


def test_places_count_in_the_text() -> None:
    """A refused profile is told by the line and column of its key."""
    text = "version: v1\nmig-configs:\n  any:\n  - devices: all\n    mig-enabled: true\n"
    text += "    mig-devices:\n      1g.5gb: 2\n      2G.10gb: 1\n"
    (problem,) = refused(text)
    assert (problem.line, problem.column) == (8, 7)


def test_one_refusal_tells_all_mistakes_in_reading_order() -> None:
    """Nothing has to be sent twice to see the next mistake."""
    text = "mig-configs:\n  a: []\n  b: [{devices: 0, mig-enabled: on, mig-devices: {}}]\n"
    assert [problem.path for problem in refused(text)] == [
        "",
        "mig-configs.a",
        "mig-configs.b[0].devices",
        "mig-configs.b[0].mig-enabled",
    ]


def test_a_text_as_values() -> None:
    """Devices, filters, mode and counts come out as they are meant."""
    text = (
        "version: v1\n"
        "mig-configs:\n"
        "  half:\n"
        '  - {device-filter: "0x20B210DE", devices: [0, 2], mig-enabled: true,'
        " mig-devices: {1g.10gb: 2, 3g.40gb: 1}}\n"
        "  - {devices: all, mig-enabled: false}\n"
    )
    shares = (Share(profile="1g.10gb", count=2), Share(profile="3g.40gb", count=1))
    path = "mig-configs.half"
    rows = (
        Row(path=f"{path}[0]", enabled=True, shares=shares, devices=(0, 2), filters=(0x20B210DE,)),
        Row(path=f"{path}[1]", enabled=False),
    )
    assert load.load(text) == GeometryConfig(names={"half": rows})
