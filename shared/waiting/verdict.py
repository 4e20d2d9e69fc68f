"""A pod and all nodes → its verdict: total, and the same for everybody who asks.

The node that comes nearest to running the pod gives the reason; what only several nodes together
say (enough is free, but nowhere at once) is said here.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from shared.contract.facts import Fact
from shared.contract.waiting import Request, Waiting, WaitingPod
from shared.domain.slots import SlotState
from shared.sharing import names
from shared.waiting import finding, reasons, refused, telling, words
from shared.waiting.node import TAKEN, NodeView
from shared.waiting.reasons import Reason, Slot, Verdict

HAS = TAKEN | {SlotState.LOST}  # a pod has its slot, though the device may be gone
NOWHERE = "no node with GPUs is one that it may go to"


class Judge:
    """Answers for any number of pods at one moment; what several of them share is found once.

    `facts` are those of registrations; only pods that have failed need them.
    """

    def __init__(
        self, views: Mapping[str, NodeView], waiting: Waiting, facts: Sequence[Fact] = ()
    ) -> None:
        self._views = views
        self._waiting = waiting
        self._facts = facts
        self._served = frozenset(name for view in views.values() for name in view.served)
        self._held = _by_pod(views.values())
        self._demands: dict[tuple[tuple[Request, ...], tuple[str, ...]], Verdict] = {}

    def of_key(self, key: str) -> Verdict | None:
        """Say why `namespace/name` does not run, or what it has; None where nothing is known."""
        waits = next((each for each in self._waiting.pods if each.pod == key), None)
        if waits is not None:
            return self.of_pod(waits)
        return self._running(key, self._held[key]) if key in self._held else None

    def of_pod(self, pod: WaitingPod) -> Verdict:
        """Say why a pod does not run."""
        mine = self.ours(pod)
        held = self._held.get(pod.pod, ())
        if pod.failed:
            return refused.of_pod(pod, mine, self._views, self._facts)
        if held:
            sentence = f"it has its slots on {pod.node}, and does not run yet: {_status(pod)}"
            running = self._running(pod.pod, held)
            return dataclasses.replace(running, reason=Reason.NOT_OURS, sentence=sentence)
        if not mine:
            sentence = f"it asks for {words.asked(pod.requests)}, which is not slicewire's"
            hint = _scheduler(pod)
            return Verdict(pod=pod.pod, reason=Reason.NOT_OURS, sentence=sentence, hint=hint)
        return self._bound(pod, mine) if pod.node else self._unbound(pod, mine)

    def ours(self, pod: WaitingPod) -> tuple[Request, ...]:
        """What it asks for that is of our kind, or offered by a node under whatever name."""
        return tuple(
            each
            for each in pod.requests
            if each.resource.startswith(names.PREFIX) or each.resource in self._served
        )

    def _unbound(self, pod: WaitingPod, requests: tuple[Request, ...]) -> Verdict:
        places = self._waiting.places
        place = places[pod.place] if 0 <= pod.place < len(places) else ()
        found = self._of_demand(requests, place)
        hint = found.hint
        if found.reason is Reason.NOT_OURS:
            hint = "; ".join(part for part in (hint, _scheduler(pod)) if part)
        return dataclasses.replace(found, pod=pod.pod, hint=hint)

    def _bound(self, pod: WaitingPod, requests: tuple[Request, ...]) -> Verdict:
        """A pod that the scheduler has bound, and that its kubelet has not admitted."""
        found = dataclasses.replace(self._of_demand(requests, (pod.node,)), pod=pod.pod)
        if found.reason is not Reason.NOT_OURS:
            return found
        sentence = f"it is bound to {pod.node}, whose kubelet has not started it: {_status(pod)}"
        return dataclasses.replace(found, sentence=sentence)

    def _running(self, key: str, held: tuple[Slot, ...]) -> Verdict:
        what = words.some([f"{each.slot} ({each.resource})" for each in held])
        each_of = Counter((each.node, each.resource) for each in held)
        places = {each.node for each in held}
        nodes = tuple(
            finding.told(
                self._views[node],
                Request(resource=resource, count=count, largest=count),
                Reason.RUNNING,
            )
            for (node, resource), count in sorted(each_of.items())
        )
        return Verdict(
            pod=key,
            reason=Reason.RUNNING,
            sentence=f"it runs on {words.some(places)} and holds {what}",
            hint="; ".join(filter(None, (self._beneath(node, held) for node in sorted(places)))),
            nodes=nodes,
            trace=min({each.trace for each in held} - {""}, default=""),
            slots=held,
        )

    def _beneath(self, node: str, held: tuple[Slot, ...]) -> str:
        return words.beneath(self._views[node], {each.slot for each in held})

    def _of_demand(self, requests: tuple[Request, ...], place: tuple[str, ...]) -> Verdict:
        key = requests, place
        if key not in self._demands:
            views = [self._views[name] for name in place if name in self._views]
            self._demands[key] = of_demand(requests, views)
        return self._demands[key]


def of_demand(requests: Sequence[Request], views: Sequence[NodeView]) -> Verdict:
    """Say why nodes do not run what asks for this; the same for all pods of a kind."""
    if not views:
        hint = "see its nodeSelector and affinity"
        return Verdict(pod="", reason=Reason.NOT_OURS, sentence=NOWHERE, hint=hint)
    found = [finding.on_node(view, requests) for view in views]
    found.sort(key=lambda each: (reasons.distance(each.reason), each.node))
    reason = found[0].reason
    request = next(each for each in requests if each.resource == found[0].resource)
    case = telling.Case(
        request=request,
        findings=found,
        nearest=[each for each in found if each.reason is reason],
        views=views,
    )
    if reason is Reason.ALL_HELD and _scattered(request, views):
        reason = Reason.FRAGMENTED
    sentence, hint, proposal = telling.tell(reason, case)
    return Verdict(
        pod="", reason=reason, sentence=sentence, hint=hint, nodes=tuple(found), proposal=proposal
    )


def _by_pod(views: Iterable[NodeView]) -> dict[str, tuple[Slot, ...]]:
    found: dict[str, list[Slot]] = {}
    for view in views:
        for row in view.ledger.rows if view.ledger else ():
            if row.holder is not None and row.state in HAS:
                slot = Slot(node=view.name, slot=row.slot, resource=row.resource, trace=row.trace)
                found.setdefault(row.holder.pod_key, []).append(slot)
    return {pod: tuple(slots) for pod, slots in found.items()}


def _status(pod: WaitingPod) -> str:
    said = ": ".join(part for part in (pod.reason, pod.message) if part)
    return said or "its status says nothing more"


def _scheduler(pod: WaitingPod) -> str:
    said = words.quoted(pod.scheduler)
    return f"the scheduler says: {said}" if said else "the scheduler says nothing"


def _scattered(request: Request, views: Iterable[NodeView]) -> bool:
    """Whether enough is free on all nodes together, and on none of them."""
    return sum(view.slots(request.resource).free for view in views) >= request.count
