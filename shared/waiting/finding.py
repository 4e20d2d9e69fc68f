"""One node and what a pod asks for → why the pod does not run there, with numbers and a hint.

The questions stand in the order of how certain their answers are: what could never fit, what is
there already, what is on its way, what is sick; what then is left is held by somebody.
"""

from __future__ import annotations

from collections.abc import Iterable

from shared.contract.waiting import Request
from shared.domain.sharing import AllocationPolicy
from shared.waiting import reasons, recut, words
from shared.waiting.node import NodeView, Slots
from shared.waiting.reasons import Finding, Reason

Answer = tuple[Reason, str]  # with a hint


def on_node(view: NodeView, requests: Iterable[Request]) -> Finding:
    """Say what the node says of the resource that it is shortest of; what is free is no cause."""
    findings = [_of_resource(view, request) for request in requests]
    return max(
        findings,
        key=lambda each: (each.reason is not Reason.NOT_OURS, reasons.distance(each.reason)),
    )


def _of_resource(view: NodeView, request: Request) -> Finding:
    return told(view, request, *_answer(view, request, view.slots(request.resource)))


def told(view: NodeView, request: Request, reason: Reason, hint: str = "") -> Finding:
    """Put the node's numbers to a reason."""
    slots = view.slots(request.resource)
    return Finding(
        node=view.name,
        reason=reason,
        resource=request.resource,
        wanted=request.count,
        total=slots.total,
        free=slots.free,
        held=slots.taken,
        unhealthy=slots.sick + slots.withheld,
        hint=hint,
    )


def _answer(view: NodeView, request: Request, slots: Slots) -> Answer:
    if not slots.capacity:
        return _absent(view, request, slots)
    if limit := _limit(view, request):
        return Reason.REQUEST_TOO_LARGE, limit
    if slots.free >= request.count:
        return _free(view, request, slots)
    return _short(view, request, slots)


def _short(view: NodeView, request: Request, slots: Slots) -> Answer:
    """Too few are free."""
    if view.will_lack(request.resource):
        return Reason.NO_SUCH_RESOURCE, f"it goes with the change: {words.change(view)}"
    if _comes(view, request, slots):
        return Reason.RECONFIGURING, words.change(view)
    if request.count > slots.capacity:
        return Reason.REQUEST_TOO_LARGE, f"{words.MOST} {slots.capacity}"
    if slots.free + slots.sick >= request.count:
        return Reason.UNHEALTHY, words.sick(view, request.resource)
    return Reason.ALL_HELD, words.holders((view,), request.resource)


def _absent(view: NodeView, request: Request, slots: Slots) -> Answer:
    """The node has no slot of the resource for anybody."""
    resource = request.resource
    if view.will_have(resource) or (view.lags and _promised(view, resource)):
        return Reason.RECONFIGURING, words.change(view)
    if slots.lost:
        return Reason.UNHEALTHY, words.sick(view, resource)
    if any(view.offers(resource)) and not slots.total:
        return Reason.NOT_REGISTERED, words.SILENT
    if recut.fits_now(view, request):
        return Reason.FRAGMENTED, "cut into other profiles"
    if slots.retiring:
        return (
            Reason.NO_SUCH_RESOURCE,
            f"no longer offered; {slots.retiring} end with their holders",
        )
    return Reason.NO_SUCH_RESOURCE, words.instead(view.served)


def _free(view: NodeView, request: Request, slots: Slots) -> Answer:
    """There are enough, and yet the pod has not got them."""
    fact = view.fact
    if fact is None:
        return Reason.NOT_OURS, ""
    if fact.cordoned_for:
        return Reason.CORDONED_BY_US, words.change(view)
    if fact.allocatable is not None:
        reported = dict(fact.allocatable).get(request.resource, 0)
        if reported - slots.taken + slots.retiring < request.count:
            late = view.changing or reported
            said = f"the kubelet reports {reported} of {slots.capacity}"
            return (Reason.RECONFIGURING if late else Reason.NOT_REGISTERED), said
    return Reason.NOT_OURS, words.closed(fact)


def _comes(view: NodeView, request: Request, slots: Slots) -> bool:
    """Whether a change that goes on brings the slots, or gives them back."""
    withheld = view.changing and slots.free + slots.withheld >= request.count
    return withheld or view.will_have(request.resource) or view.lags


def _promised(view: NodeView, resource: str) -> bool:
    """Whether the newest intent or the inventory speaks of a resource."""
    wanted = view.intent.sharing.resources if view.intent else ()
    named = {name for each in wanted for name in (each.name, each.rename)}
    return resource in named or any(view.offers(resource))


def _limit(view: NodeView, request: Request) -> str:
    """Say which rule of the sharing text the request breaks, however many slots there are."""
    shares = tuple(view.offers(request.resource))
    if request.largest > 1 and any(each.fail_requests_greater_than_one for each in shares):
        return "failRequestsGreaterThanOne is true: ask for 1, more slots give no more of a GPU"
    gpus = {each.gpu_uuid for each in shares}
    distinct = any(each.policy is AllocationPolicy.DISTINCT for each in shares)
    if distinct and request.largest > len(gpus):
        return f"allocationPolicy is distinct and it has {len(gpus)} GPUs"
    return ""
