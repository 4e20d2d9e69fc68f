"""The state file of `slicewire plan`: modes, instances and holders that stand before the plan.

Read by the same strict reader as sharing texts and stories: `1:0` is a MIG device and not the
number 60, a slot that stands twice is refused, and every mistake has its line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from services.rehearsal import spot as spots
from services.rehearsal.spot import Spot
from shared.domain.errors import RefusedError
from shared.domain.sharing import Strategy
from shared.sharing import findings, names, tree

_PARTS = ("mode", "instances", "holders", "strategy")
_SWITCHES = {"on": True, "off": False}
_INDEX = re.compile("0|[1-9][0-9]{0,3}")
_POD = re.compile("[^/ ]+/[^/ ]+")


class StateError(ValueError):
    """Flags or a state file that describe no node; the text says what to write."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A MIG instance that is there already, and the pod that holds it ("" for none)."""

    profile: str
    start: int
    holder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a node holds before the plan; GPUs by index, holders by resource and slot.

    `strategy` is how holders share their GPUs; None: as the text that is planned says.
    """

    mode: Mapping[int, bool] = field(default_factory=dict)
    instances: Mapping[int, tuple[Instance, ...]] = field(default_factory=dict)
    holders: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    strategy: Strategy | None = None

    def without(self, pods: Collection[str]) -> State:
        """Return the state when these pods have gone."""
        return State(
            mode=self.mode,
            instances={
                index: tuple(_left(instance, pods) for instance in instances)
                for index, instances in self.instances.items()
            },
            holders={
                resource: {slot: pod for slot, pod in taken.items() if pod not in pods}
                for resource, taken in self.holders.items()
            },
            strategy=self.strategy,
        )


def _left(instance: Instance, pods: Collection[str]) -> Instance:
    return Instance(instance.profile, instance.start) if instance.holder in pods else instance


def read(text: str) -> State:
    """Read a state file.

    Raises:
        StateError: it is wrong, with all its mistakes.
    """
    found = findings.Findings()
    try:
        documents = tree.documents(text, found)
        if len(documents) > 1:
            found.stop(documents[1].place, "", "a second YAML document starts here")
        state = _state(Spot.root(documents[0], found)) if documents else State()
        found.settle()
    except RefusedError as refused:
        raise StateError(f"the state file, {refused}") from None
    return state


def _state(root: Spot) -> State:
    parts = {name: spot for name, spot in root.mapping(_PARTS).items() if not spot.is_null}
    return State(
        mode={index: _switch(each) for index, each in _by_index(parts.get("mode")).items()},
        instances={
            index: tuple(_instance(each) for each in listed.items())
            for index, listed in _by_index(parts.get("instances")).items()
        },
        holders=_holders(parts.get("holders")),
        strategy=parts["strategy"].field.member(Strategy) if "strategy" in parts else None,
    )


def _by_index(spot: Spot | None) -> dict[int, Spot]:
    """Read what stands under the index of each GPU."""
    found: dict[int, Spot] = {}
    for name, each in (spot.mapping() if spot else {}).items():
        if _INDEX.fullmatch(name):
            found[int(name)] = each
        else:
            each.field.report_key(f'"{name}" is no index of a GPU', "write 0, 1, …")
    return found


def _switch(spot: Spot) -> bool:
    """Read `on` or `off`, and what YAML 1.1 makes of them."""
    word = spot.plain()
    return _SWITCHES[word] if isinstance(word, str) and word in _SWITCHES else spot.truth()


def _instance(spot: Spot) -> Instance:
    parts = spot.mapping(("profile", "start", "holder"))
    if not spots.required(spot, parts, "profile", "start"):
        return Instance("", 0)
    holder = _pod(parts["holder"]) if "holder" in parts else ""
    return Instance(parts["profile"].text("a MIG profile"), parts["start"].whole(least=0), holder)


def _holders(spot: Spot | None) -> dict[str, dict[str, str]]:
    """Read the pod on each slot; the prefix of a resource may be left out, as in sharing texts."""
    found: dict[str, dict[str, str]] = {}
    for written, taken in (spot.mapping() if spot else {}).items():
        resource = written if "/" in written else names.PREFIX + written
        held = found.setdefault(resource, {})
        for slot, pod in taken.mapping().items():
            if slot in held:
                pod.field.report_key(f"the slot {slot} of {resource} stands twice", "keep one")
            held[slot] = _pod(pod)
    return found


def _pod(spot: Spot) -> str:
    name = spot.text("a pod: namespace/name")
    if name and not _POD.fullmatch(name):
        spot.refuse(f"found {spot.field.found()}, accepted is a pod", "write namespace/name")
    return name
