"""Whatever stands in a ConfigMap: no crash, no key ignored, and slots that add up."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from shared.domain import slots
from shared.domain.errors import Problem, RefusedError
from shared.domain.gpu import Gpu
from shared.sharing import entries, expand, homes, load, shares
from tests.support import hardware

NODES: tuple[tuple[Gpu, ...], ...] = (
    (),
    (hardware.gpu(0),),
    (hardware.gpu(0), hardware.gpu(1)),
    (hardware.gpu(0), hardware.mig_gpu(1, 3)),
    (hardware.mig_gpu(0, 7),),
)
SEED = """\
version: v1
flags: {migStrategy: mixed, plugin: {deviceListStrategy: [envvar], passDeviceSpecs: true}}
sharing:
  timeSlicing:
    renameByDefault: true
    failRequestsGreaterThanOne: false
    resources:
    - &base {name: nvidia.com/gpu, replicas: 4, devices: [0, "1"]}
    - {<<: *base, name: mig-1g.10gb, devices: [1:0]}
slicewire: {allocationPolicy: packed}
"""
PIECES = ["\t", "\n", "  ", "- ", ": ", "{", "}", "[", "]", "&base ", "*base", "<<", "!!int "]
PIECES += [
    "'",
    '"',
    "|-\n",
    "---\n",
    "...\n",
    "# ",
    "? ",
    "%YAML 1.1\n",
    "\x00",
    "\ufeff",
    "\ud800",
]
PIECES += [
    "\ud800",
    "\u2028",
    "1:0",
    "010",
    "4.0",
    "yes",
    "null",
    "1e999",
    "9" * 50,
    "gpu",
    "all",
    "é",
]

names = st.sampled_from(["nvidia.com/gpu", "gpu", "mig-1g.10gb", "nvidia.com/mig-3g.40gb"])
references = st.lists(
    st.sampled_from([0, 1, "0", "1:0", "0:2", "1:1"]), min_size=1, max_size=3, unique_by=str
)
devices = st.just("all") | references
entry = st.fixed_dictionaries(
    {"name": names, "replicas": st.integers(1, 20000)},
    optional={"rename": st.sampled_from(["slice", "gpu.x"]), "devices": devices},
)
section = st.fixed_dictionaries(
    {"resources": st.lists(entry, min_size=1, max_size=3)},
    optional={"renameByDefault": st.booleans(), "failRequestsGreaterThanOne": st.booleans()},
)
configs = st.fixed_dictionaries(
    {"sharing": st.sampled_from(["timeSlicing", "mps"]).flatmap(
        lambda strategy: st.fixed_dictionaries({strategy: section})
    )},
    optional={
        "version": st.just("v1"),
        "flags": st.fixed_dictionaries(
            {},
            optional={
                "migStrategy": st.sampled_from(["none", "single", "mixed"]),
                "plugin": st.fixed_dictionaries({"passDeviceSpecs": st.booleans()}),
                "gfd": st.fixed_dictionaries({"oneshot": st.booleans()}),
            },
        ),
        "resources": st.just({"gpus": [{"pattern": "*", "name": "gpu"}]}),
        "imex": st.just({"channelIDs": [0]}),
        "slicewire": st.fixed_dictionaries(
            {},
            optional={
                "allocationPolicy": st.just("distinct"),
                "health": st.fixed_dictionaries(
                    {"ignore": st.sampled_from([[], [94], [63, 94]])},
                    optional={"recoverAfter": st.sampled_from(["1s", "5m", "1h30m", "never"])},
                ),
            },
        ),
    },
)  # fmt: skip


def mappings(node: Any) -> list[dict[str, Any]]:
    """Every mapping inside a value, the outermost first."""
    if isinstance(node, dict):
        return [node, *(found for each in node.values() for found in mappings(each))]
    return [found for each in node for found in mappings(each)] if isinstance(node, list) else []


def problems(text: str) -> tuple[Problem, ...]:
    """What a text is refused for; nothing where it is accepted."""
    try:
        load.load(text)
    except RefusedError as error:
        return error.problems
    return ()


def check_sums(text: str, gpus: tuple[Gpu, ...]) -> None:
    """An accepted text gives each device its replicas, under ids that are unique and not many."""
    try:
        made = shares.shares(gpus, load.load(text)).shares
    except RefusedError:  # devices that these GPUs do not have, or more ids than fit
        return
    offers = expand.expand(made, {})
    assert [len(offer.slots) for offer in offers] == [share.replicas for share in made]
    for resource in {offer.resource for offer in offers}:
        ids = [slot for offer in offers if offer.resource == resource for slot in offer.slots]
        assert len(ids) == len(set(ids)) <= entries.MOST_IDS
    for offer in offers:
        assert {slots.device_of(slot) for slot in offer.slots} <= {offer.uuid}


@given(st.text() | st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_any_text_is_read_or_refused_with_places(text: str) -> None:
    """Nothing but a refusal with places comes out of a wrong text."""
    assert all(problem.line >= 1 and problem.column >= 1 for problem in problems(text))


@given(st.data(), st.integers(1, 4))
def test_a_damaged_text_is_read_or_refused(data: st.DataObject, damages: int) -> None:
    """Cuts and insertions anywhere in a good text never crash, and what is accepted adds up."""
    text = SEED
    for _ in range(damages):
        start = data.draw(st.integers(0, len(text)))
        end = min(start + data.draw(st.integers(0, 12)), len(text))
        text = text[:start] + data.draw(st.sampled_from(["", *PIECES])) + text[end:]
    if not problems(text):
        check_sums(text, data.draw(st.sampled_from(NODES)))


@given(configs, st.sampled_from([json.dumps, yaml.safe_dump]), st.sampled_from(NODES))
def test_right_values_in_any_combination_add_up(
    config: dict[str, Any], write: Callable[[Any], str], gpus: tuple[Gpu, ...]
) -> None:
    """Right values are refused only for a resource in two entries; the rest has right sums."""
    text = write(config)
    found = problems(text)
    assert all("stands in two entries" in problem.message for problem in found)
    if not found:
        check_sums(text, gpus)


@given(configs, st.data(), st.text("abcXY-", min_size=1))
def test_no_unknown_key_is_ever_ignored(
    config: dict[str, Any], data: st.DataObject, name: str
) -> None:
    """One key too many at any level refuses the text and is named."""
    damaged = copy.deepcopy(config)
    data.draw(st.sampled_from(mappings(damaged)))[name] = data.draw(
        st.sampled_from([None, 1, "text", {}, []])
    )
    found = problems(json.dumps(damaged))
    assert any(f'unknown key "{name}"' in problem.message for problem in found)


@pytest.mark.parametrize("home", homes.KEYS)
def test_every_level_refuses_the_keys_of_the_others(home: str) -> None:
    """A key that belongs elsewhere is refused at each level, and told where it belongs."""
    for name in {key for keys in homes.KEYS.values() for key in keys} - set(homes.KEYS[home]):
        text: Any = {name: None}
        for part in reversed([part for part in home.split(".") if part]):
            text = {part.removesuffix("[]"): [text] if part.endswith("[]") else text}
        found = [each for each in problems(json.dumps(text)) if f'"{name}"' in each.message]
        assert [each.suggestion for each in found if "belongs" in each.suggestion], (home, name)
