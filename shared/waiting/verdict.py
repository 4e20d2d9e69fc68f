"""A pod that does not run, and all nodes → its verdict: total, and the same for everybody who asks.

The node that comes nearest to running the pod gives the reason; what only several nodes together
say (enough is free, but nowhere at once) is said here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from shared.contract.waiting import Request, Waiting, WaitingPod
from shared.waiting import finding, reasons, telling, words
from shared.waiting.node import NodeView
from shared.waiting.reasons import Reason, Slot, Verdict

Views = Mapping[str, NodeView]
NOWHERE = "no node with GPUs is one that it may go to"


def of_pod(pod: WaitingPod, views: Views, waiting: Waiting) -> Verdict:
    """Say why a pod that has not failed does not run."""
    mine = tuple(each for each in pod.requests if finding.ours(each.resource, views.values()))
    held = holding(pod.pod, views)
    if held.slots:
        sentence = f"it has its slots on {pod.node}, and does not run yet: {_status(pod)}"
        return dataclasses.replace(held, reason=Reason.NOT_OURS, sentence=sentence)
    if not mine:
        sentence = f"it asks for {words.asked(pod.requests)}, which is not slicewire's"
        hint = _scheduler(pod)
        return Verdict(pod=pod.pod, reason=Reason.NOT_OURS, sentence=sentence, hint=hint)
    if pod.node:
        return _bound(pod, mine, views)
    place = waiting.places[pod.place] if 0 <= pod.place < len(waiting.places) else ()
    found = of_demand(mine, [views[name] for name in place if name in views])
    hint = found.hint
    if found.reason is Reason.NOT_OURS:
        hint = "; ".join(part for part in (hint, _scheduler(pod)) if part)
    return dataclasses.replace(found, pod=pod.pod, hint=hint)


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


def holding(key: str, views: Views) -> Verdict:
    """Say that a pod runs, with what it has; without slots it has none."""
    held = [
        Slot(node=view.name, slot=row.slot, resource=row.resource, trace=row.trace)
        for view in views.values()
        for row in view.rows
        if row.holder is not None and row.holder.pod_key == key
    ]
    nodes = words.some({each.node for each in held})
    what = words.some([f"{each.slot} ({each.resource})" for each in held])
    traces = {each.trace for each in held} - {""}
    return Verdict(
        pod=key,
        reason=Reason.RUNNING,
        sentence=f"it runs on {nodes} and holds {what}",
        trace=min(traces, default=""),
        slots=tuple(held),
    )


def _bound(pod: WaitingPod, requests: Sequence[Request], views: Views) -> Verdict:
    """A pod that the scheduler has bound, and that its kubelet has not admitted."""
    there = [views[pod.node]] if pod.node in views else []
    found = dataclasses.replace(of_demand(requests, there), pod=pod.pod)
    if found.reason is not Reason.NOT_OURS:
        return found
    sentence = f"it is bound to {pod.node}, whose kubelet has not started it: {_status(pod)}"
    return dataclasses.replace(found, sentence=sentence)


def _status(pod: WaitingPod) -> str:
    said = ": ".join(part for part in (pod.reason, pod.message) if part)
    return said or "its status says nothing more"


def _scheduler(pod: WaitingPod) -> str:
    return f"the scheduler says: {pod.scheduler}" if pod.scheduler else "the scheduler says nothing"


def _scattered(request: Request, views: Iterable[NodeView]) -> bool:
    """Whether enough is free on all nodes together, and on none of them."""
    return sum(view.slots(request.resource).free for view in views) >= request.count
