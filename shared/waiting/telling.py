"""A reason with its findings → the sentence, what to do, and a MIG layout that would help."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from shared.contract.waiting import Request
from shared.waiting import recut, words
from shared.waiting.node import NodeView
from shared.waiting.reasons import Finding, Proposal, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is to be told: of which request, by which nodes; `nearest` gave the reason."""

    request: Request
    findings: Sequence[Finding]
    nearest: Sequence[Finding]
    views: Sequence[NodeView]

    @property
    def what(self) -> str:
        """The resource that is short."""
        return self.request.resource

    @property
    def where(self) -> str:
        """The nodes that gave the reason."""
        return words.some({each.node for each in self.nearest})

    @property
    def free(self) -> int:
        """Free slots on all nodes."""
        return sum(each.free for each in self.findings)

    @property
    def held(self) -> int:
        """Slots that pods have, on all nodes."""
        return sum(each.held for each in self.findings)

    @property
    def total(self) -> int:
        """Slots on all nodes."""
        return sum(each.total for each in self.findings)

    @property
    def hint(self) -> str:
        """What the nearest node says."""
        return self.nearest[0].hint


Told = tuple[str, str]  # a sentence, and what to do


def tell(reason: Reason, case: Case) -> tuple[str, str, Proposal | None]:
    """Say it."""
    sentence, hint = _TELLERS[reason](case)
    proposal = None
    if reason in _RECUT:
        proposal = recut.propose(case.views, case.what, case.request.count)
    if proposal is not None:
        hint = "; ".join(part for part in (hint, words.proposed(proposal)) if part)
    return sentence, hint, proposal


def _no_such_resource(case: Case) -> Told:
    served = {name for view in case.views for name in view.served} - {case.what}
    offered = f"offered are {words.some(served)}" if served else "nothing else is offered"
    hint = words.meant(case.what, served) or offered
    return f"no node that it may go to offers {case.what}", hint


def _all_held(case: Case) -> Told:
    sentence = f"pods hold all slots of {case.what}: {case.held} of {case.total}"
    if case.free:
        wanted = case.request.count
        sentence = f"{case.free} of {case.total} slots of {case.what} are free, {wanted} are wanted"
    return sentence, words.holders(case.views, case.what)


def _unhealthy(case: Case) -> Told:
    kept = words.counted(sum(each.unhealthy for each in case.nearest))
    return (
        f"devices that are not healthy keep back {kept} of {case.what} on {case.where}",
        case.hint,
    )


def _reconfiguring(case: Case) -> Told:
    return f"{case.where} is being changed; {case.what} comes with the end of it", _change(case)


def _change(case: Case) -> str:
    return f"{case.hint}; slicewire trace {case.nearest[0].node} shows the change"


def _too_large(case: Case) -> Told:
    wanted = f"{case.request.count} {case.what} in one pod is more than"
    if not case.hint.startswith(words.MOST):
        return f"{wanted} the sharing text allows", case.hint
    most = max(each.total for each in case.nearest)
    return f"{wanted} any node has", f"ask for {most} or less: that is all of the largest node"


def _fragmented(case: Case) -> Told:
    if case.nearest[0].reason is Reason.ALL_HELD:
        free, wanted = words.counted(case.free), case.request.count
        sentence = f"{free} of {case.what} are free, but no node has {wanted} of them"
        return sentence, "ask for less in one pod, or let pods of one node end"
    return f"{case.what}: there is room on {case.where}, cut into other profiles", ""


def _cordoned_by_us(case: Case) -> Told:
    sentence = f"{case.what} is free on {case.where}, which takes no pods for the time of a change"
    return sentence, _change(case)


def _not_registered(case: Case) -> Told:
    sentence = f"{case.where} has {case.what}, and its kubelet knows nothing of it"
    return sentence, f"{case.hint}: look at the log of its allocator"


def _not_ours(case: Case) -> Told:
    return f"{case.what} is free on {case.where}: something else keeps the pod away", case.hint


_TELLERS: Mapping[Reason, Callable[[Case], Told]] = MappingProxyType(
    {
        Reason.NO_SUCH_RESOURCE: _no_such_resource,
        Reason.ALL_HELD: _all_held,
        Reason.UNHEALTHY: _unhealthy,
        Reason.RECONFIGURING: _reconfiguring,
        Reason.REQUEST_TOO_LARGE: _too_large,
        Reason.FRAGMENTED: _fragmented,
        Reason.CORDONED_BY_US: _cordoned_by_us,
        Reason.NOT_REGISTERED: _not_registered,
        Reason.NOT_OURS: _not_ours,
    }
)
_RECUT = frozenset({Reason.NO_SUCH_RESOURCE, Reason.ALL_HELD, Reason.FRAGMENTED})
