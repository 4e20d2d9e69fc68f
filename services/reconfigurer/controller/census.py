"""Pods that do not run, and the nodes → what is told of them on the bus, and who is reminded. Pure.

`watching` keeps the pods, and posts what comes out here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from services.reconfigurer.controller import fleet, saying, selection
from services.reconfigurer.controller.outcome import State
from services.reconfigurer.controller.pods import Seen
from services.reconfigurer.controller.snapshot import Snapshot
from shared.contract import names, waiting
from shared.contract.messages import Stamp
from shared.contract.waiting import NodeFact, Waiting, WaitingPod
from shared.waiting.node import NodeView
from shared.waiting.reasons import Reason, Verdict

AGAIN_NS = 600 * 10**9  # how long a pod is not told again what it has been told
SILENT = frozenset({Reason.RUNNING, Reason.NOT_OURS})  # the scheduler's own Events say the rest
_SETTLING = (State.PENDING, State.REBOOTING)


def compose(
    stamp: Stamp, seen: Iterable[Seen], view: fleet.Fleet, looked_at: Mapping[str, Snapshot]
) -> Waiting:
    """Write the value of the fleet, of what nobody may ask about too much left out."""
    everybody = list(seen)
    told = _told(everybody)
    ours = [name for name in sorted(view.nodes) if view.ours(name)]
    labelled = [(name, view.nodes[name].labels) for name in ours]
    places: dict[str, int] = {}
    for each in told:
        places.setdefault(each.selection, len(places))
    return Waiting(
        stamp=stamp,
        pods=tuple(dataclasses.replace(each.pod, place=places[each.selection]) for each in told),
        more=len(everybody) - len(told),
        places=tuple(selection.chosen(each, labelled) for each in places),
        nodes=tuple(
            fact
            for name in ours
            if (fact := _fact(name, view, looked_at.get(name))) != NodeFact(name=name)
        ),
    )


def views(view: fleet.Fleet, told: Waiting) -> dict[str, NodeView]:
    """Put together what is known of each node with GPUs."""
    facts = {each.name: each for each in told.nodes}
    return {
        name: NodeView(
            name=name,
            intent=view.intents.get(name),
            inventory=view.inventories.get(name),
            ledger=view.ledgers.get(name),
            progress=received.value if (received := view.progress.get(name)) else None,
            fact=facts.get(name),
        )
        for name in view.nodes
        if view.ours(name)
    }


def reminder(pod: WaitingPod, verdict: Verdict, now_ns: int, after_s: float) -> saying.Say | None:
    """What a pod is told that has waited for too long; the same for any leader, once in a while.

    Its name comes of the pod, the reason and how many times `AGAIN_NS` have passed since the pod
    was made, so a new leader posts no second one. One that has failed waits for nothing: it is
    told at once and once for ever where its kubelet has said less than we know.
    """
    age_ns = now_ns - pod.created_ns
    if pod.failed and verdict.reason is not Reason.KUBELET_STALE:
        return None
    if not pod.failed and (verdict.reason in SILENT or age_ns < after_s * 1e9):
        return None
    namespace, _, name = pod.pod.partition("/")
    return saying.Say(
        about=saying.About(kind="Pod", namespace=namespace, name=name, uid=pod.uid),
        reason=verdict.reason,
        message=". ".join(part for part in (verdict.sentence, verdict.hint) if part),
        warning=True,
        topic=verdict.reason if pod.failed else f"{verdict.reason} {age_ns // AGAIN_NS}",
    )


def _told(seen: Iterable[Seen]) -> list[Seen]:
    """Choose and order them as `Waiting` says."""
    ordered = sorted(seen, key=lambda each: (each.pod.created_ns, each.pod.pod))
    devices = [each for each in ordered if each.of_devices]
    told = [each for each in devices if not each.pod.failed][: waiting.MOST_PODS]
    failed = [each for each in reversed(devices) if each.pod.failed]
    told += failed[: min(waiting.MOST_PODS - len(told), waiting.MOST_FAILED)]
    others = [each for each in ordered if not each.of_devices]
    return told + others[: min(waiting.MOST_PODS - len(told), waiting.MOST_OTHERS)]


def _fact(name: str, view: fleet.Fleet, looked: Snapshot | None) -> NodeFact:
    annotations = view.nodes[name].annotations
    outcome = view.outcomes.get(name)
    return NodeFact(
        name=name,
        cordoned_for=annotations.get(names.CORDON_ANNOTATION, ""),
        changing=outcome is not None and outcome.state in _SETTLING,
        schedulable=None if looked is None else not looked.unschedulable,
        allocatable=None if looked is None else _ours_of(looked, view),
    )


def _ours_of(looked: Snapshot, view: fleet.Fleet) -> tuple[tuple[str, int], ...]:
    """Of what a node reports, the resources that it serves for us."""
    ledger = view.ledgers.get(looked.name)
    served = {each.resource for each in ledger.counts} if ledger else set()
    return tuple(sorted((name, n) for name, n in looked.allocatable.items() if name in served))
