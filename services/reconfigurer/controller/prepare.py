"""Progress, ledger, inventory, a node and its pods → the next step of the controller's part. Pure.

A change takes a node through: cordon and pause, wait until no pod is on its way to the kubelet,
`prepared_for`; then the agent holds its slots and the holders are evicted; whatever the end, cordon
and components are taken back. Everything that a successor must know is on the node, on the bus or
in what the agent says, so `decide` gives the same answers after a restart at any point.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from services.reconfigurer.controller import capacity, components, cordon, eviction, notes
from services.reconfigurer.controller.attempt import Attempt, Failure, Next, View
from services.reconfigurer.controller.eviction import Ended, Evict, Refuse, Wait
from services.reconfigurer.controller.snapshot import NOTHING, Patch
from shared.contract import names
from shared.contract.messages import Phase
from shared.domain import slots

SETTLE_S = 1.0  # a scheduler that has not seen the cordon yet may still bind a pod
SHOWN_S = 60.0  # a kubelet that has not reported by then will not: the cordon does not wait for it
LOST_S = 30.0  # an agent that says nothing at all may be starting
SILENT_S = 900.0  # longer than any step of the agent, a reboot included
RETRY_MOST_S = 3600.0

MIG = "MIG-"  # how the UUID of a MIG device begins
MARKS = (names.CORDON_ANNOTATION, names.PAUSED_ANNOTATION, names.EVICTED_ANNOTATION)


class GivenUp(enum.StrEnum):
    """One word for why an attempt was given up by us."""

    TIMEOUT = "DrainTimeout"
    REFUSED = "DrainRefused"


class Stage(enum.Enum):
    """What a look at the node is about."""

    PREPARING = "preparing"
    HOLDING = "holding"
    BUSY = "busy"  # the agent's part: nothing to take back yet
    OVER = "over"


def decide(view: View, attempt: Attempt) -> Next:
    """Say what to do now, and what to remember."""
    attempt = _of_this_change(view, attempt)
    if disowned := cordon.disown(view.node, view.manager):
        return Next(attempt=attempt, patch=disowned, waits="its cordon is somebody else's now")
    stage = stage_of(view, attempt)
    if stage is Stage.OVER:
        return _over(view, attempt)
    attempt = dataclasses.replace(attempt, over=None)
    if stage is Stage.PREPARING:
        return _prepare(view, attempt)
    if stage is Stage.HOLDING:
        return _hold(view, attempt)
    return Next(attempt=attempt, patch=_brief(view), waits="the agent works")


def stage_of(view: View, attempt: Attempt) -> Stage:
    """Say what the node needs of the controller."""
    progress = view.progress
    if progress is None:
        return Stage.OVER if view.silent_s > LOST_S else Stage.BUSY
    if progress.phase is Phase.PREPARE:
        taken_up = view.newest and view.allowed and view.now >= attempt.retry_at
        return Stage.PREPARING if taken_up else Stage.OVER
    if progress.phase is Phase.HOLDING:
        if view.silent_s > view.policy.timeout_s + LOST_S:
            return Stage.OVER
        return Stage.HOLDING if view.prepared else Stage.BUSY
    if progress.phase in {Phase.APPLYING, Phase.REBOOTING}:
        return Stage.OVER if view.silent_s > SILENT_S else Stage.BUSY
    return Stage.OVER


def marked(annotations: Mapping[str, str]) -> bool:
    """Whether something on a node is to be taken back by us one day."""
    return any(mark in annotations for mark in MARKS)


def _of_this_change(view: View, attempt: Attempt) -> Attempt:
    """Forget what was remembered of an older change, and the times of an older attempt."""
    generation = view.wanted.stamp.generation
    if attempt.generation != generation:
        attempt = Attempt(generation=generation)
    progress = view.progress
    if progress is None or not view.newest:
        return attempt
    if progress.order != attempt.order:
        attempt = _at_rest(dataclasses.replace(attempt, order=progress.order))
    if not progress.slots:
        return attempt
    devices = (slots.device_of(slot) for slot in progress.slots)
    leaving = frozenset(device for device in devices if device.startswith(MIG))
    return dataclasses.replace(attempt, leaving=leaving)


def _at_rest(attempt: Attempt) -> Attempt:
    """The times of an attempt that does not go on, or not yet."""
    return dataclasses.replace(attempt, began=None, holding=None, cordoned=None)


def _prepare(view: View, attempt: Attempt) -> Next:
    began = view.now if attempt.began is None else attempt.began
    attempt = dataclasses.replace(attempt, began=began, failure=None)
    patch = components.pause(view.node, view.progress.components if view.progress else ())
    patch |= _forget_evicted(view)
    if view.policy.cordon is not cordon.Policy.NEVER:
        patch |= cordon.take(view.node, view.wanted.stamp.generation)
    if patch:
        return Next(attempt=attempt, patch=patch, waits="the node is being cordoned")
    cordoned = view.now if attempt.cordoned is None else attempt.cordoned
    attempt = dataclasses.replace(attempt, cordoned=cordoned)
    waits = _unready(view, cordoned)
    if waits and view.now - began > view.policy.timeout_s:
        return _give_up(view, attempt, GivenUp.TIMEOUT, f"not within the time limit: {waits}")
    return Next(attempt=attempt, prepared=None if waits else True, waits=waits)


def _forget_evicted(view: View) -> Patch:
    """Drop the notes of an earlier attempt: its slots were free since, for pods of any name.

    A hold that goes on into a newer generation keeps its order, and its notes.
    """
    ledger, progress = view.ledger, view.progress
    goes_on = ledger is not None and progress is not None and ledger.held_order == progress.order
    if goes_on or names.EVICTED_ANNOTATION not in view.node.annotations:
        return NOTHING
    return Patch(annotations={names.EVICTED_ANNOTATION: None})


def _unready(view: View, cordoned: float) -> str:
    """What is still in the way of a hold; empty if nothing is."""
    if view.prepared:
        return "the agent has not taken the hold"
    if view.policy.cordon is not cordon.Policy.NEVER and view.now - cordoned < SETTLE_S:
        return "the scheduler may not have seen the cordon yet"
    served = capacity.served(view.ledger, view.inventory)
    if pods := eviction.unadmitted(view.pods, served):
        return f"not admitted by the kubelet yet: {', '.join(pods)}"
    paused = components.paused(view.node.annotations)
    if pods := eviction.of_components(view.pods, paused):
        return f"pods of paused components still run: {', '.join(pods)}"
    return ""


def _hold(view: View, attempt: Attempt) -> Next:
    since = view.now if attempt.holding is None else attempt.holding
    attempt = dataclasses.replace(attempt, holding=since)
    evicted = eviction.noted(view.node.annotations)
    found = eviction.verdicts(
        view.progress.blockers if view.progress else (),
        {pod.key: pod for pod in view.pods},
        _rules(view, evicted),
    )
    if refused := [f"{each.key} {each.why}" for each in found if isinstance(each, Refuse)]:
        return _give_up(view, attempt, GivenUp.REFUSED, "; ".join(refused))
    if view.now - since > view.policy.timeout_s:
        return _give_up(view, attempt, GivenUp.TIMEOUT, _late(view, found))
    evict = tuple(each.pod for each in found if isinstance(each, Evict))
    noted = evicted | {pod.key: pod.uid for pod in evict}
    note = {names.EVICTED_ANNOTATION: notes.written(noted)}
    patch = Patch(annotations=note) if noted != evicted else NOTHING
    waits = "; ".join(f"{each.key} {each.why}" for each in found if _waited_for(each))
    return Next(
        attempt=attempt,
        patch=patch | _brief(view),
        evict=evict,
        waits=waits,
        blockers=tuple((each.key, each.why) for each in found),
        ended=tuple(each.key for each in found if isinstance(each, Ended)),
    )


def _waited_for(found: eviction.Verdict) -> bool:
    """Whether more than the look that comes next is needed; so it is after a refusal."""
    return isinstance(found, Wait) or (isinstance(found, Evict) and bool(found.refused))


def _rules(view: View, evicted: dict[str, str]) -> eviction.Rules:
    return eviction.Rules(
        node=view.node.name,
        served=capacity.served(view.ledger, view.inventory),
        bare=view.policy.bare_pods,
        daemon_set=view.policy.daemon_set_pods,
        held=view.held,
        evicted=evicted,
        later=view.later,
        now=view.now,
    )


def _late(view: View, found: tuple[eviction.Verdict, ...]) -> str:
    if there := [each for each in found if not isinstance(each, Ended)]:
        pods = ", ".join(f"{each.key} ({each.why})" for each in there)
        return f"pods that still hold its slots: {pods}"
    if view.held:
        return "no pod holds its slots any more, and the agent has not gone on"
    return "the allocator has not acknowledged the hold"


def _give_up(view: View, attempt: Attempt, reason: str, why: str) -> Next:
    """Withdraw what we have promised; the next look takes the rest back. Later, try again."""
    wait = min(RETRY_MOST_S, max(1.0, view.policy.timeout_s) * float(2 ** min(attempt.tries, 16)))
    sentence = f"{why}; the former layout goes on serving, tried again in {wait:.0f} s"
    failed = dataclasses.replace(
        _at_rest(attempt),
        failure=Failure(reason, sentence),
        tries=attempt.tries + 1,
        retry_at=view.now + wait,
    )
    return Next(attempt=failed, prepared=False if view.prepared else None, waits=why)


def _brief(view: View) -> Patch:
    """End a brief cordon once the scheduler can see the hold."""
    if view.policy.cordon is not cordon.Policy.BRIEF or not view.held or view.ledger is None:
        return NOTHING
    withheld = frozenset(view.progress.slots) if view.progress else frozenset()
    wanted = capacity.expected(view.ledger, view.inventory, withheld)
    if not capacity.shows_hold(view.node.allocatable, wanted):
        return NOTHING
    return cordon.lift(view.node, view.manager)


def _over(view: View, attempt: Attempt) -> Next:
    """Take back what is ours: components at once, the cordon when the devices are those told."""
    since = view.now if attempt.over is None else attempt.over
    attempt = dataclasses.replace(_at_rest(attempt), over=since)
    patch = components.restore(view.node)
    if names.EVICTED_ANNOTATION in view.node.annotations:
        patch |= Patch(annotations={names.EVICTED_ANNOTATION: None})
    if not differences(view, attempt) or view.now - since >= SHOWN_S:
        patch |= cordon.lift(view.node, view.manager)
    rest = not patch and not marked(view.node.annotations)
    return Next(attempt=attempt, patch=patch, rest=rest)


def differences(view: View, attempt: Attempt) -> str:
    """How the node's allocatable devices are not those of ledger and inventory; else empty."""
    ledger, inventory = view.ledger, view.inventory
    if ledger is None or inventory is None:
        return "the allocator or the advertiser has said nothing yet"
    if view.succeeded and attempt.leaving & {share.uuid for share in inventory.shares}:
        return "the advertiser has not seen the new devices yet"
    if view.succeeded and ledger.held_for is not None:
        return "slots are still withheld"
    if not capacity.answers(ledger, inventory):
        return "the allocator has not taken up the newest inventory"
    return capacity.differing(view.node.allocatable, capacity.expected(ledger, inventory))
