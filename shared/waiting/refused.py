"""A pod that has failed → whether a node of ours has refused it, and why.

The kubelet fails a pod for good that it cannot admit; what its plugin or its device manager said
stands in the message. A pod that was admitted before its plugin had registered (after a boot, or a
restart of the kubelet) is told apart by the time of the registration that came after; one that was
refused what the ledger had free, by `stale`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from shared.contract.facts import Fact, FactKind
from shared.contract.waiting import Request, WaitingPod
from shared.waiting import finding, stale, words
from shared.waiting.node import NodeView
from shared.waiting.reasons import Reason, Verdict

ADMISSION = re.compile(r"UnexpectedAdmissionError|OutOf.+|Preempting|AdmissionError")
ABSENT = re.compile(
    r"no healthy devices present|unregistered device|unknown Device Plugin"
    r"|previously allocated devices are no longer healthy"
)
_SAID: Mapping[str, Reason] = MappingProxyType(
    {
        "the limit is 1, because": Reason.REQUEST_TOO_LARGE,
        "distinct GPUs needed": Reason.FRAGMENTED,
        "has no slot": Reason.RECONFIGURING,  # the kubelet's list was older than ours
        "is not handed out": Reason.UNHEALTHY,
    }
)
AFTERWARDS_NS = 600 * 10**9  # a registration that comes later says nothing of the refusal
AGAIN = "it will not run any more: delete it, and what made it makes another one"


def of_pod(
    pod: WaitingPod,
    mine: Sequence[Request],
    views: Mapping[str, NodeView],
    facts: Sequence[Fact],
) -> Verdict:
    """Say why a pod has failed; `mine` is what it asked of us, `facts` tell of registrations."""
    said = pod.message or "its status says nothing more"
    if not mine or not ADMISSION.fullmatch(pod.reason):
        sentence = f"it has failed: {': '.join(part for part in (pod.reason, said) if part)}"
        return Verdict(pod=pod.pod, reason=Reason.NOT_OURS, sentence=sentence)
    view = views.get(pod.node)
    reason, sentence = _refusal(pod, mine, view, facts)
    table = stale.of_pod(pod, facts) if reason is Reason.KUBELET_STALE else None
    parts = (stale.cure(table) if table else "", AGAIN, f"{pod.node} said: {words.quoted(said)}")
    return Verdict(
        pod=pod.pod,
        reason=reason,
        sentence=sentence,
        hint="; ".join(filter(None, parts)),
        nodes=(finding.told(view, mine[0], reason),) if view else (),
    )


def _refusal(
    pod: WaitingPod, requests: Sequence[Request], view: NodeView | None, facts: Sequence[Fact]
) -> tuple[Reason, str]:
    for part, reason in _SAID.items():
        if part in pod.message:
            return _of_plugin(pod, reason, view)
    if not ABSENT.search(pod.message):
        return _short(pod, view, facts)
    resources = {each.resource for each in requests}
    after = [
        fact.at_ns - pod.failed_ns
        for fact in facts
        if fact.kind is FactKind.REGISTERED
        and fact.stamp.node == pod.node
        and fact.resource in resources
        and 0 <= fact.at_ns - pod.failed_ns <= AFTERWARDS_NS
    ]
    if after:
        waited = min(after) / 1e9
        return Reason.NOT_REGISTERED, (
            f"rejected before registration: {pod.node} had no plugin for"
            f" {words.asked(requests)} yet; {waited:.0f} s later it had"
        )
    if view is not None and any(view.slots(each.resource).sick for each in requests):
        return Reason.UNHEALTHY, f"refused by {pod.node}: no healthy device was left"
    return Reason.NOT_REGISTERED, f"refused by {pod.node}, whose kubelet knew no plugin of it"


def _of_plugin(pod: WaitingPod, reason: Reason, view: NodeView | None) -> tuple[Reason, str]:
    """What our own plugin said."""
    if reason is Reason.UNHEALTHY and not (view and _is_sick(view)):
        return Reason.RECONFIGURING, f"refused by {pod.node}: its slot was withheld for a change"
    said = {
        Reason.REQUEST_TOO_LARGE: "it asks for more than the sharing text allows",
        Reason.FRAGMENTED: "what was free was not on enough different GPUs",
        Reason.RECONFIGURING: "its slot had gone with a change",
        Reason.UNHEALTHY: "its slot was withdrawn with a sick device",
    }
    return reason, f"refused by {pod.node}: {said[reason]}"


def _short(pod: WaitingPod, view: NodeView | None, facts: Sequence[Fact]) -> tuple[Reason, str]:
    """The scheduler had counted on more than there was, or than the kubelet believes in."""
    if view is not None and (view.changing or view.lags):
        return Reason.RECONFIGURING, f"refused by {pod.node}, which is being changed"
    if table := stale.of_pod(pod, facts):
        return Reason.KUBELET_STALE, f"refused by {pod.node}, {stale.of_node(table)}"
    return Reason.ALL_HELD, f"refused by {pod.node}: others had been given what was left"


def _is_sick(view: NodeView) -> bool:
    return any(
        not health.usable
        for gpu in view.gpus
        for health in (gpu.health, *(each.health for each in gpu.mig_devices))
    )
