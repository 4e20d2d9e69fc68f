"""What all writers last said about each node → the form of `slicewire status -o json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from services.views import cuts, totals, used
from shared.contract.messages import ConfigState, Intent, Inventory, Ledger, Progress, SlotCounts
from shared.contract.mps import MpsDaemon
from shared.contract.usage import Usage
from shared.contract.waiting import StaleTable, Waiting
from shared.domain.errors import Problem
from shared.domain.gpu import Gpu
from shared.domain.sharing import SourceKind
from shared.waiting import stale

NO_TEXT = (
    "there is no sharing text: the ConfigMap is missing or empty, so the GPUs are served unshared"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """When a service of the node last wrote (RFC 3339), and the version that wrote."""

    seen: str | None
    version: str | None

    def form(self) -> dict[str, Any]:
        """The two fields as JSON has them."""
        return {"seen": self.seen, "version": self.version}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """The newest messages about one node; None for what nobody has said.

    `stale` is what the controller says of the node's kubelet.
    """

    name: str
    intent: Intent | None = None
    inventory: Inventory | None = None
    ledger: Ledger | None = None
    progress: Progress | None = None
    usage: Usage | None = None
    services: Mapping[str, Heard]
    stale: tuple[StaleTable, ...] = ()

    def same(self, other: NodeState) -> bool:
        """Whether nobody has said anything since; a look at values would cost more."""
        same = all(getattr(self, name) is getattr(other, name) for name in SAID)
        return same and self.services == other.services and self.stale == other.stale


SAID = ("intent", "inventory", "ledger", "progress", "usage")


class Forms:
    """Answers of `status -o json`, one after another: what is not new is not made anew."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[NodeState, dict[str, Any]]] = {}

    def of(self, states: Iterable[NodeState], waiting: Waiting | None = None) -> dict[str, Any]:
        """The whole answer, nodes in order of name."""
        ordered = sorted(states, key=lambda each: each.name)
        self._known = {state.name: (state, self._node(state)) for state in ordered}
        nodes = [made for _, made in self._known.values()]
        return {
            "nodes": nodes,
            "resources": totals.of_fleet(nodes, waiting),
            "waiting": totals.pending(waiting),
        }

    def _node(self, state: NodeState) -> dict[str, Any]:
        former, made = self._known.get(state.name, (None, {}))
        return made if former is not None and state.same(former) else node_form(state)


def form(states: Iterable[NodeState], waiting: Waiting | None = None) -> dict[str, Any]:
    """The answer of `status -o json`."""
    return Forms().of(states, waiting)


def node_form(state: NodeState) -> dict[str, Any]:
    """One node of the answer."""
    uses = used.by_device(state.usage)
    slots = by_resource(state.ledger)
    return {
        "name": state.name,
        "config": _config(state.intent, state.inventory),
        "mig": cuts.change_form(state.intent, state.progress),
        "gpus": _gpus(state, uses),
        "stale": [_stale(each) for each in state.stale],
        "resources": totals.of_node(slots, state.ledger, state.inventory, uses),
        "services": {name: heard.form() for name, heard in state.services.items()},
    }


def _stale(table: StaleTable) -> dict[str, Any]:
    """What the kubelet holds back, with the words that `why` has for it."""
    return {
        "resource": table.resource,
        "devices": table.devices,
        "sentence": stale.said(table),
        "hint": stale.cure(table),
    }


def counts(ledger: Ledger | None, *, gpu_uuid: str = "", resource: str = "") -> SlotCounts:
    """Add up the counts of a node's ledger, of one GPU or one resource where these are named."""
    chosen = [
        each.counts
        for each in (ledger.counts if ledger else ())
        if gpu_uuid in ("", each.gpu_uuid) and resource in ("", each.resource)
    ]
    names = [each.name for each in fields(SlotCounts)]
    return SlotCounts(**{name: sum(getattr(each, name) for each in chosen) for name in names})


def by_resource(ledger: Ledger | None) -> dict[str, dict[str, int]]:
    """The slots of each resource, as the node object counts them, in all and by their state."""
    names = sorted({each.resource for each in ledger.counts} if ledger else ())
    found = {name: counts(ledger, resource=name) for name in names}
    return {name: {"total": each.total, **asdict(each)} for name, each in found.items()}


def _config(intent: Intent | None, inventory: Inventory | None) -> dict[str, Any]:
    """Where the sharing comes from and what became of it.

    The advertiser refuses what does not fit its GPUs before the controller has read that it does
    not, so its problems are told as well, once each.
    """
    if intent is None:
        empty = ("key", "source", "generation", "state", "reason")
        return dict.fromkeys(empty, None)
    misfits = _misfits(intent, inventory)
    problems = dict.fromkeys((*intent.problems, *misfits))
    said = "; ".join(problem.sentence() for problem in problems)
    return {
        "key": intent.source.key,
        "source": intent.source.kind.value,
        "generation": str(intent.stamp.generation),
        "state": (ConfigState.REFUSED if misfits else intent.state).value,
        "reason": (f"{intent.refused}: {said}" if intent.refused else said) or _unselected(intent),
    }


def _unselected(intent: Intent) -> str:
    """Say why nothing is shared where nothing is wrong."""
    return NO_TEXT if intent.source.kind is SourceKind.NONE else ""


def _misfits(intent: Intent, inventory: Inventory | None) -> tuple[Problem, ...]:
    """What the hardware refuses of this very intent."""
    if inventory is None or inventory.stamp.generation != intent.stamp.generation:
        return ()
    return inventory.problems


def _gpus(state: NodeState, uses: used.Uses) -> list[dict[str, Any]]:
    inventory, ledger = state.inventory, state.ledger
    daemons = {daemon.gpu_uuid: daemon for daemon in inventory.mps} if inventory else {}
    slots = cuts.slots(ledger, inventory, state.progress)
    on = cuts.On(pods=cuts.holders(ledger), slots=slots, uses=uses)
    gpus = inventory.gpus if inventory else ()
    return [
        _gpu(gpu, ledger, daemons.get(gpu.uuid))
        | {"used": used.of_gpu(gpu, uses)}
        | cuts.gpu_form(gpu, on)
        for gpu in gpus
    ]


def _gpu(gpu: Gpu, ledger: Ledger | None, daemon: MpsDaemon | None) -> dict[str, Any]:
    slots = counts(ledger, gpu_uuid=gpu.uuid)
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "model": gpu.model,
        "health": gpu.health.state.value,
        "reason": gpu.health.reason,
        "mps": {"state": daemon.state.value, "reason": daemon.reason} if daemon else None,
        "slots": {
            "total": slots.total,
            "free": slots.free,
            "granted": slots.granted,
            "held": slots.held,
            "retiring": slots.retiring,
            "unhealthy": slots.unhealthy,
        },
    }
