"""Node states and pods that do not run → the forms of `slicewire why` and of `status`. Pure."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from services.views.fleet import NodeState
from shared.contract.facts import Fact
from shared.contract.messages import Stamp
from shared.contract.spans import SpanRecord
from shared.contract.waiting import Waiting
from shared.waiting.node import NodeView
from shared.waiting.reasons import Reason, Verdict
from shared.waiting.verdict import Judge

EVICTION = "evict pod"  # the controller's span of one
NOBODY = Waiting(stamp=Stamp(node="", writer=""))


def judge(
    states: Iterable[NodeState], waiting: Waiting | None, facts: Sequence[Fact] = ()
) -> Judge:
    """Judge by what the bus says; `facts` of registrations are needed for pods that have failed."""
    told = waiting or NOBODY
    known = {each.name: each for each in told.nodes}
    views = {
        state.name: NodeView(
            name=state.name,
            intent=state.intent,
            inventory=state.inventory,
            ledger=state.ledger,
            progress=state.progress,
            fact=known.get(state.name),
        )
        for state in states
    }
    return Judge(views, told, facts)


def form(verdict: Verdict) -> dict[str, Any]:
    """The answer as JSON has it."""
    return {
        "pod": verdict.pod,
        "reason": verdict.reason.value,
        "sentence": verdict.sentence,
        "hint": verdict.hint,
        "nodes": [dataclasses.asdict(each) for each in verdict.nodes],
        "proposal": _proposal(verdict),
        "slots": [dataclasses.asdict(each) for each in verdict.slots],
        "trace": verdict.trace,
    }


def summary(states: Iterable[NodeState], waiting: Waiting | None) -> list[dict[str, Any]]:
    """Count the pods that wait for what is ours by reason, with the sentence of the oldest."""
    if waiting is None or not waiting.pods:
        return []
    by = judge(states, waiting)
    found = [by.of_pod(pod) for pod in waiting.pods if not pod.failed and by.ours(pod)]
    counts = Counter(each.reason for each in found)
    first = {each.reason: each for each in reversed(found)}
    return [
        {
            "reason": reason.value,
            "pods": count,
            "first": first[reason].pod,
            "sentence": first[reason].sentence,
        }
        for reason, count in counts.most_common()
    ]


def evicted(key: str, spans: Iterable[SpanRecord]) -> Verdict | None:
    """Say that a pod that is gone was evicted by a change, with its trace; None if it was not."""
    mine = [span for span in spans if span.name == EVICTION and span.attributes.get("pod") == key]
    if not mine:
        return None
    last = max(mine, key=lambda span: span.end_ns)
    where = last.attributes.get("node", last.node)
    return Verdict(
        pod=key,
        reason=Reason.RECONFIGURING,
        sentence=f"it was evicted from {where}: it had a slot of a GPU that was cut anew",
        hint=f"what made it makes another one; slicewire trace {last.trace_id} shows the change",
        trace=last.trace_id,
    )


def _proposal(verdict: Verdict) -> dict[str, Any] | None:
    if verdict.proposal is None:
        return None
    return dataclasses.asdict(verdict.proposal) | {"layout": dict(verdict.proposal.layout)}
