"""What a sharing text is refused for: path, place and sentence, by case number."""

from __future__ import annotations

import functools

import pytest

from shared.domain.errors import Place, Problem, RefusedError
from shared.sharing import findings, tree
from tests.unit.sharing import texts

ENTRY = "sharing.timeSlicing.resources[0]"
MANIFEST = """\
apiVersion: v1
kind: Namespace
metadata: {name: gpu}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: sharing}
data:
  a100-80gb: |
    version: v1
"""

HELM_RELEASE = """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: nvidia-device-plugin}
spec:
  values:
    runtimeClassName: nvidia
    config:
      map:
        default: |-
          version: v1
"""
TOML = """\
[settings.kubelet-device-plugins.nvidia]
device-sharing-strategy = "time-slicing"

[settings.kubelet-device-plugins.nvidia.time-slicing]
replicas = 4
"""

# (id, text, path, a part of the sentence)
CASES: list[tuple[str, str, str, str]] = [
    (
        "U001-renameByDefault-under-flags",
        "flags: {migStrategy: none, renameByDefault: true}\n"
        "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 16384}]}}",
        "flags.renameByDefault",
        "belongs under sharing.timeSlicing",
    ),
    (
        "U005-replicas-one-level-too-high",
        "sharing: {timeSlicing: {replicas: 8, renameByDefault: true}}",
        "sharing.timeSlicing",
        "sharing.timeSlicing.resources is missing",
    ),
    (
        "U005-says-where-replicas-belongs",
        "sharing: {timeSlicing: {replicas: 8, renameByDefault: true}}",
        "sharing.timeSlicing.replicas",
        "into each entry of sharing.timeSlicing.resources",
    ),
    ("U007-tabs", "version: v1\n    sharing:\n    \ttimeSlicing: ...", "", "a tab stands in"),
    (
        "F05-manifest",
        MANIFEST,
        "",
        "looks like a Kubernetes manifest (kind Namespace)",
    ),
    (
        "F05-second-document",
        MANIFEST.partition("---\n")[2],
        "",
        "only the text that stands under data.<key>, here data.a100-80gb",
    ),
    (
        "F17-whole-HelmRelease",
        HELM_RELEASE,
        "",
        "only the text that stands under spec.values.config.map.<key>, here"
        " spec.values.config.map.default",
    ),
    ("F21-Bottlerocket-TOML", TOML, "", "this is not YAML"),
    (
        "F11-devices-as-names",
        texts.gpu('replicas: 4, devices: {names: ["Tesla T4"]}'),
        f"{ENTRY}.devices",
        "all, or a list of GPU indexes (0), gpu:mig pairs (1:0) and UUIDs",
    ),
    (
        "F13-lower-case-key",
        "sharing: {timeslicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}",
        "sharing.timeslicing",
        'did you mean "timeSlicing"?',
    ),
    (
        "F13-lower-case-inner-key",
        texts.sliced("name: gpu, replicas: 4", options="renamebydefault: true"),
        "sharing.timeSlicing.renamebydefault",
        'did you mean "renameByDefault"?',
    ),
    ("B2-version-number", "version: 1", "version", "found 1, accepted: v1"),
    ("B2-version-v2", "version: v2", "version", 'found the text "v2"'),
    ("B2-replicas-quoted", texts.gpu('replicas: "4"'), f"{ENTRY}.replicas", "write 4"),
    ("B2-replicas-2.5", texts.gpu("replicas: 2.5"), f"{ENTRY}.replicas", "a whole number"),
    ("B2-replicas-010", texts.gpu("replicas: 010"), f"{ENTRY}.replicas", "write 10"),
    ("B2-replicas-0", texts.gpu("replicas: 0"), f"{ENTRY}.replicas", "found 0"),
    ("B2-replicas-minus-4", texts.gpu("replicas: -4"), f"{ENTRY}.replicas", "found -4"),
    ("B2-replicas-null", texts.gpu("replicas: null"), f"{ENTRY}.replicas", "found nothing"),
    ("B2-replicas-true", texts.gpu("replicas: true"), f"{ENTRY}.replicas", "found true"),
    ("B2-replicas-missing", texts.sliced("name: gpu"), ENTRY, "replicas is missing"),
    ("B2-replicas-1000000", texts.gpu("replicas: 1000000"), f"{ENTRY}.replicas", "20000 ids"),
    ("B2-replicas-1_000", texts.gpu("replicas: 1_000"), f"{ENTRY}.replicas", "write 1000"),
    ("B2-replicas-e5", texts.gpu("replicas: e5"), f"{ENTRY}.replicas", 'found the text "e5"'),
    ("B2-replicas-.e5", texts.gpu("replicas: -.e5"), f"{ENTRY}.replicas", 'the text "-.e5"'),
    ("B2-replicas-1e999", texts.gpu("replicas: 1e999"), f"{ENTRY}.replicas", "found 1e999"),
    (
        "B2-replicas-endless",
        texts.gpu(f"replicas: {'9' * 5000}"),
        f"{ENTRY}.replicas",
        f"found {'9' * 59}…, accepted is a whole number",
    ),
    (
        "B2-duplicate-key",
        texts.gpu("replicas: 2, replicas: 8"),
        f"{ENTRY}.replicas",
        "stands twice in one mapping, first on line 5, column 30",
    ),
    (
        "B2-same-resource-twice",
        texts.sliced("name: gpu, replicas: 2", "name: nvidia.com/gpu, replicas: 3"),
        "sharing.timeSlicing.resources[1]",
        "stands in two entries, first on line 5, column 7",
    ),
    (
        "B2-same-device-twice",
        texts.sliced(
            "name: gpu, replicas: 2, devices: [0, 1]", "name: gpu, replicas: 3, devices: [1]"
        ),
        "sharing.timeSlicing.resources[1]",
        "cover the same devices",
    ),
    (
        "B2-one-device-of-all",
        texts.sliced("name: gpu, replicas: 2, devices: [0]", "name: gpu, replicas: 3"),
        "sharing.timeSlicing.resources[1]",
        "cover the same devices",
    ),
    (
        "B2-mps-and-timeSlicing",
        texts.gpu("replicas: 2") + "  mps: {resources: [{name: gpu, replicas: 3}]}",
        "sharing.mps",
        "two strategies for one node, the first is sharing.timeSlicing on line 3, column 3",
    ),
    (
        "B2-timeSlice",
        "sharing: {timeSlice: {resources: []}}",
        "sharing.timeSlice",
        'did you mean "timeSlicing"?',
    ),
    ("B2-unknown-key", "sharding: {}", "sharding", 'did you mean "sharing"?'),
    (
        "B2-migStrategy-mixd",
        "flags: {migStrategy: mixd}",
        "flags.migStrategy",
        'accepted: none, single, mixed (did you mean "mixed"?)',
    ),
    (
        "B2-resources-empty",
        "sharing: {timeSlicing: {resources: []}}",
        "sharing.timeSlicing.resources",
        "the list is empty",
    ),
    (
        "B2-timeSlicing-null",
        "sharing:\n  timeSlicing:\n",
        "sharing.timeSlicing",
        "sharing.timeSlicing.resources is missing",
    ),
    (
        "B2-timeSlicing-empty",
        "sharing: {timeSlicing: {}}",
        "sharing.timeSlicing",
        "sharing.timeSlicing.resources is missing",
    ),
    (
        "B2-resources-as-map",
        "sharing: {timeSlicing: {resources: {gpu: 4}}}",
        "sharing.timeSlicing.resources",
        "found a mapping, accepted is a list",
    ),
    (
        "B2-foreign-domain",
        texts.sliced("name: example.com/gpu, replicas: 2"),
        f"{ENTRY}.name",
        "accepted are names under nvidia.com/",
    ),
    (
        "B2-mig-plus-me",
        texts.sliced("name: mig-1g.10gb+me, replicas: 2"),
        f"{ENTRY}.name",
        'did you mean "nvidia.com/mig-1g.10gb.me"?',
    ),
    (
        "B2-upper-case-name",
        texts.sliced("name: nvidia.com/GPU, replicas: 2"),
        f"{ENTRY}.name",
        'did you mean "nvidia.com/gpu"?',
    ),
    (
        "B2-long-name",
        texts.sliced(f"name: {'g' * 60}, replicas: 2"),
        f"{ENTRY}.name",
        "makes 71 characters, at most 63 fit",
    ),
    (
        "B2-gpu.shared",
        texts.sliced("name: nvidia.com/gpu.shared, replicas: 2"),
        f"{ENTRY}.name",
        "renameByDefault: true",
    ),
    (
        "B2-upper-case-gpu.shared",
        texts.sliced("name: nvidia.com/Gpu.Shared, replicas: 2"),
        f"{ENTRY}.name",
        'did you mean "nvidia.com/gpu" with renameByDefault: true?',
    ),
    (
        "name-of-a-profile",
        texts.sliced("name: 1g.10gb, replicas: 2"),
        f"{ENTRY}.name",
        'did you mean "nvidia.com/mig-1g.10gb"?',
    ),
    (
        "name-of-a-part-of-an-instance",
        texts.sliced("name: nvidia.com/mig-1c.3g.20gb, replicas: 2"),
        f"{ENTRY}.name",
        'did you mean "nvidia.com/mig-3g.20gb"?',
    ),
    (
        "name-with-a-space-behind",
        texts.sliced("name: 'nvidia.com/gpu ', replicas: 2"),
        f"{ENTRY}.name",
        'the text "nvidia.com/gpu " is no resource name: lower-case letters, digits,'
        " '-' and '.' (did you mean \"nvidia.com/gpu\"?)",
    ),
    (
        "name-as-a-block",
        "sharing:\n  mps:\n    resources:\n    - name: |\n        nvidia.com/gpu\n"
        "      replicas: 2\n",
        "sharing.mps.resources[0].name",
        'the text "nvidia.com/gpu\\n" is no resource name',
    ),
    (
        "name-in-upper-case-with-domain",
        texts.sliced("name: NVIDIA.com/gpu, replicas: 2"),
        f"{ENTRY}.name",
        'did you mean "nvidia.com/gpu"?',
    ),
    (
        "rename-in-upper-case",
        texts.gpu("replicas: 2, rename: Half_GPU"),
        f"{ENTRY}.rename",
        'did you mean "nvidia.com/half-gpu"?',
    ),
    (
        "key-with-no-break-spaces",
        "sharing:\n\u00a0\u00a0timeSlicing: {}\n",
        "\\u00a0\\u00a0timeSlicing",
        'unknown key "\\u00a0\\u00a0timeSlicing", accepted here: version, flags, resources,'
        ' sharing, imex, slicewire ("timeSlicing" belongs under sharing)',
    ),
    (
        "B2-rename-of-another-domain",
        texts.gpu("replicas: 2, rename: example.com/slice"),
        f"{ENTRY}.rename",
        "accepted are names under nvidia.com/",
    ),
    ("B2-devices-empty", texts.gpu("replicas: 2, devices: []"), f"{ENTRY}.devices", "is empty"),
    (
        "B2-devices-duplicate",
        texts.gpu('replicas: 2, devices: [0, "0"]'),
        f"{ENTRY}.devices[1]",
        "device 0 is listed twice, first on line 5, column 53",
    ),
    ("B2-devices-count", texts.gpu("replicas: 2, devices: 2"), f"{ENTRY}.devices", "write [2]"),
    ("B2-devices-0", texts.gpu("replicas: 2, devices: 0"), f"{ENTRY}.devices", "write [0]"),
    (
        "B2-devices-quoted-0",
        texts.gpu('replicas: 2, devices: "0"'),
        f"{ENTRY}.devices",
        "write [0]",
    ),
    (
        "B2-devices-negative",
        texts.gpu("replicas: 2, devices: [-1]"),
        f"{ENTRY}.devices[0]",
        "found -1",
    ),
    (
        "B2-renameByDefault-quoted",
        texts.sliced("name: gpu, replicas: 2", options='renameByDefault: "true"'),
        "sharing.timeSlicing.renameByDefault",
        "write true",
    ),
    (
        "B2-renameByDefault-yes",
        texts.sliced("name: gpu, replicas: 2", options="renameByDefault: yes"),
        "sharing.timeSlicing.renameByDefault",
        "write true",
    ),
    (
        "B2-several-documents",
        texts.gpu("replicas: 2") + "---\nversion: v1\n",
        "",
        "a second YAML document starts here",
    ),
    (
        "B2-helm-config.map",
        "config:\n  map:\n    default: |-\n      version: v1\n",
        "",
        "only the text that stands under config.map.<key>, here config.map.default",
    ),
    (
        "B2-data-of-a-config-map",
        "any: |-\n  version: v1\n  sharing: {}\n",
        "",
        "paste only the text under any",
    ),
    ("B2-tab-indentation", "version: v1\nsharing:\n\tmps: {}\n", "", "a tab stands in"),
    ("B2-plain-prose", "Please share our GPUs by four.", "", "found the text"),
    ("B2-prose-with-a-colon", "Hello:\nshare the GPUs\nplease: do", "", "this is not YAML"),
    ("slicewire-later", "slicewire: {vram: {}}", "slicewire.vram", "not supported by this version"),
    (
        "slicewire-policy",
        "slicewire: {allocationPolicy: spread}",
        "slicewire.allocationPolicy",
        "accepted: distributed, packed, distinct",
    ),
    (
        "health-unknown-key",
        "slicewire: {health: {recoverafter: 60s}}",
        "slicewire.health.recoverafter",
        'did you mean "recoverAfter"?',
    ),
    ("health-no-mapping", "slicewire: {health: [94]}", "slicewire.health", "found a list"),
    ("health-no-list", "slicewire: {health: {ignore: 94}}", "slicewire.health.ignore", "a list of"),
    (
        "health-quoted-xid",
        'slicewire: {health: {fatal: [31, "43"]}}',
        "slicewire.health.fatal[1]",
        "write 43",
    ),
    (
        "health-xid-0",
        "slicewire: {health: {ignore: [0]}}",
        "slicewire.health.ignore[0]",
        "a whole number from 1 up",
    ),
    (
        "health-xid-twice",
        "slicewire: {health: {ignore: [94, 94]}}",
        "slicewire.health.ignore[1]",
        "XID 94 stands twice",
    ),
    (
        "health-xid-in-both",
        "slicewire:\n  health:\n    fatal: [31]\n    ignore: [94, 31]\n",
        "slicewire.health.ignore[1]",
        "see slicewire.health.fatal[0] on line 3",
    ),
    (
        "health-bare-number",
        "slicewire: {health: {recoverAfter: 60}}",
        "slicewire.health.recoverAfter",
        "write 60s",
    ),
    (
        "health-bare-0",
        "slicewire: {health: {recoverAfter: 0}}",
        "slicewire.health.recoverAfter",
        "write never",
    ),
    (
        "health-never-in-upper-case",
        "slicewire: {health: {recoverAfter: Never}}",
        "slicewire.health.recoverAfter",
        "write never",
    ),
    (
        "health-no-duration",
        "slicewire: {health: {recoverAfter: a minute}}",
        "slicewire.health.recoverAfter",
        'a duration like "60s"',
    ),
    (
        "health-at-once",
        "slicewire: {health: {recoverAfter: 0s}}",
        "slicewire.health.recoverAfter",
        "from 1s to 24h",
    ),
    (
        "health-for-days",
        "slicewire: {health: {recoverAfter: 48h}}",
        "slicewire.health.recoverAfter",
        "or write never",
    ),
    (
        "two-policies",
        "flags: {plugin: {sharedDevicesAllocationPolicy: packed}}\n"
        "slicewire: {allocationPolicy: distinct}",
        "slicewire.allocationPolicy",
        "contradicts flags.plugin.sharedDevicesAllocationPolicy on line 1",
    ),
    ("flag-type", "flags: {failOnInitError: 1}", "flags.failOnInitError", "write true"),
    (
        "flag-list",
        "flags: {plugin: {deviceListStrategy: [envvar, cdi]}}",
        "flags.plugin.deviceListStrategy[1]",
        "accepted: envvar, volume-mounts, cdi-annotations, cdi-cri",
    ),
    ("imex", "imex: {channelIDs: [1]}", "imex.channelIDs", "[] or [0]"),
    ("tag", "version: !!str v1", "version", "the tag tag:yaml.org,2002:str is not read"),
    ("unknown-alias", "version: *v", "version", "the alias *v has no anchor"),
    ("alias-of-itself", "sharing: &s [*s]", "sharing[0]", "the alias *s has no anchor"),
    ("merge-of-a-list", "<<: [1]\nversion: v1", "<<", "takes a mapping"),
    ("key-that-is-a-list", "? [a]\n: b\n", "", "where a key is due"),
    ("control-character", "version: v1\n# \x01", "", "U+0001"),
    ("lone-surrogate", "version: \ud800", "", "U+D800"),
    ("too-deep", "sharing: " + "[" * 40, "", "nested deeper"),
    ("too-large", "#" * (tree.MOST_BYTES + 1), "", "more than the 1048576 of a ConfigMap"),
]


@pytest.mark.parametrize(
    ("text", "path", "part"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_wrong_text_is_refused_where_and_why(text: str, path: str, part: str) -> None:
    """Each mistake is named with its path and a sentence that helps."""
    problems = texts.refused(text)
    matching = [
        problem for problem in problems if problem.path == path and part in problem.sentence()
    ]
    assert matching, [problem.sentence() for problem in problems]
    assert all(problem.line >= 1 and problem.column >= 1 for problem in problems)


@pytest.mark.parametrize("level", [3, 5, 8])
def test_an_alias_bomb_is_refused_before_it_grows(level: int) -> None:
    """Aliases count in full, so ten times ten times ten ends where it is written."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 40)}]" for n in range(1, level + 1)]
    problems = texts.refused("\n".join(lines))
    assert any("every alias followed" in problem.message for problem in problems)


def test_all_problems_come_at_once_in_reading_order() -> None:
    """A text with several mistakes is explained in one go."""
    text = (
        "version: v2\n"
        "flags:\n"
        "  migStrategy: mixd\n"
        "sharing:\n"
        "  timeSlicing:\n"
        "    renameByDefault: yes\n"
        "    resources:\n"
        "    - name: nvidia.com/gpu\n"
        '      replicas: "4"\n'
        "      replica: 4\n"
    )
    places = [(problem.line, problem.column) for problem in texts.refused(text)]
    assert places == [(1, 10), (3, 16), (6, 22), (9, 17), (10, 7)]


def test_a_problem_has_the_five_fields_that_every_surface_prints() -> None:
    """Path, line, column, message and suggestion of one mistake, whole."""
    assert texts.refused("version: v1\nsharing:\n  timeslicing: {}\n") == (
        Problem(
            path="sharing.timeslicing",
            line=3,
            column=3,
            message='unknown key "timeslicing", accepted here: timeSlicing, mps',
            suggestion='did you mean "timeSlicing"?',
        ),
    )


def test_a_refusal_stays_readable_however_many_mistakes_there_are() -> None:
    """Beyond a hundred problems the rest is counted."""
    problems = texts.refused("\n".join(f"k{number}: 1" for number in range(300)))
    assert len(problems) == 101
    assert problems[-1].message == "and 200 more problems that are not listed"


def test_what_was_meant_is_searched_only_for_mistakes_that_are_shown() -> None:
    """A file of another kind may hold ten thousand, and the controller waits for the answer."""
    found = findings.Findings()
    searched: list[int] = []

    def search(line: int) -> str:
        searched.append(line)
        return f"is {line}"

    for line in range(300, 0, -1):
        found.add(Place(line, 1), "", "odd", functools.partial(search, line))
    with pytest.raises(RefusedError) as caught:
        found.settle()
    assert sorted(searched) == list(range(1, 101))
    assert [problem.suggestion for problem in caught.value.problems[:2]] == ["is 1", "is 2"]


def test_long_values_are_quoted_short() -> None:
    """A sentence quotes what a person can read, on one line."""
    problem = texts.refused("version: '" + "v\n\n" * 5000 + "'")[0]
    assert len(problem.sentence()) < 200
    assert "\n" not in problem.sentence()
