"""The part of a change that writes: which GPU is next, towards what, and what failures lead to.

A GPU that fails is planned anew towards the goal, then once towards what it was before, then it
is emptied; what is left after that stays withheld. Devices that were to stay are never touched.
Pure; `change` calls it once nobody is in the way.
"""

from __future__ import annotations

import dataclasses

from services.reconfigurer.agent import ending, holders, plan, steps, words
from services.reconfigurer.agent import sight as sights
from services.reconfigurer.agent.ending import decision
from services.reconfigurer.agent.memory import Change, Memory, Part, Reason
from services.reconfigurer.agent.plan import GpuPlan
from services.reconfigurer.agent.sight import GpuSight
from services.reconfigurer.agent.view import SECOND, Apply, Decision, Outcome, Reboot, View
from shared.contract.messages import LedgerRow, Phase, Progress
from shared.geometry import why
from shared.geometry.config import Wanted

MARGIN_NS = 300 * SECOND  # for a controller that has another leader meanwhile
TO_FORMER, TO_EMPTY, GIVEN_UP = 2, 3, 4  # failures of a GPU from which on these hold


def go_on(view: View, change: Change) -> Decision | None:
    """Do the next thing; None when the change has come to its goal, or has been undone."""
    lacking = missing(view, change)
    if lacking:
        return wait(view, change, lacking)
    parts = tuple(_judged(view, change, part) for part in change.parts)
    change = dataclasses.replace(change, parts=parts)
    found = _next_plan(view, change)
    if found is not None:
        return _apply(view, change, found)
    if any(_waits_for_boot(part) for part in change.parts):
        return _boot_or_go_back(view, change)
    return _end(view, change)


def missing(view: View, change: Change) -> str:
    """Say who has not answered the hold, or who has a withheld slot; empty where all is clear."""
    due = change.order, view.generation
    ledger, inventory = view.ledger, view.inventory
    if ledger is None or (ledger.held_order, ledger.held_for) != due:
        return "the allocator has not withheld the slots yet"
    rows = busy(view, change)
    if rows:
        return f"withheld slots are in use by {words.held(rows)}"
    paused = inventory is not None and (inventory.paused_order, inventory.paused_for) == due
    if change.release_nvml and not paused:
        return "the advertiser has not let NVML go yet"
    return ""


def busy(view: View, change: Change) -> tuple[LedgerRow, ...]:
    """Return the withheld slots that somebody has, as far as is known."""
    ledger = view.ledger
    return () if ledger is None else holders.busy(ledger, change.recut, change.kept)


def wait(view: View, change: Change, lacking: str) -> Decision:
    """Wait for what is lacking while the hold is out, but not for ever."""
    until = change.held_ns + _longest_ns(view)
    if view.now_ns >= until:
        sentence = f"{lacking}, and the time for it is over"
        view = dataclasses.replace(view, memory=_with(view.memory, change))
        return ending.failed(view, change, Reason.HOLD_TIMEOUT, sentence)
    said = Progress(
        stamp=view.stamp,
        phase=Phase.HOLDING,
        sentence=lacking,
        order=change.order,
        slots=change.slots,
        blockers=holders.blockers(busy(view, change)),
        since_ns=change.held_ns,
        until_ns=until,
    )
    return decision(view, _with(view.memory, change), said, wake_ns=until)


def _longest_ns(view: View) -> int:
    """The agent's own limit, but longer than the controller waits: that one knows the pods."""
    drain_ns = view.intent.mig_policy.drain_ns if view.intent else 0
    return max(view.limits.hold_ns, drain_ns + MARGIN_NS)


def abandoned(change: Change, view: View) -> Change:
    """Turn a change whose goal is no longer wanted back, where it has not come to it already."""
    wanted = dict(change.goal)
    parts = tuple(
        part
        if _is(view.sights.get(part.plan.uuid), wanted[part.plan.uuid])
        else dataclasses.replace(part, failures=max(part.failures, TO_FORMER))
        for part in change.parts
    )
    return dataclasses.replace(change, parts=parts, abandoned=True, generation=view.generation)


def after(memory: Memory, outcome: Outcome) -> Memory:
    """Remember what came of an act."""
    change = memory.change
    if change is None or outcome.reason is None:
        return memory
    if not outcome.uuid:
        parts = tuple(_not_booted(part, outcome) for part in change.parts)
    else:
        parts = tuple(
            _failed(part, outcome) if part.plan.uuid == outcome.uuid else part
            for part in change.parts
        )
    return _with(memory, dataclasses.replace(change, parts=parts, rebooting=False))


def _judged(view: View, change: Change, part: Part) -> Part:
    """Pass over ways that do not exist. A GPU that does not answer is given up at once."""
    sight = view.sights.get(part.plan.uuid)
    if sight is None or sight.trouble:
        sentence = sight.trouble if sight else f"NVML no longer lists {part.plan.uuid}"
        reason = Reason.GPU_UNAVAILABLE
        return dataclasses.replace(part, failures=GIVEN_UP, reason=reason, sentence=sentence)
    while not _rests(view, change, part) and _way(view, change, part) is None:
        sentence = part.sentence or "there is no way that leaves alone what was to stay"
        part = dataclasses.replace(part, failures=part.failures + 1, sentence=sentence)
    return part


def _next_plan(view: View, change: Change) -> GpuPlan | None:
    """Return the way of the first GPU that has not come to where it is going."""
    ways = (_way(view, change, part) for part in change.parts if not _rests(view, change, part))
    return next(ways, None)


def _rests(view: View, change: Change, part: Part) -> bool:
    return _waits_for_boot(part) or _is_there(view, change, part)


def _is_there(view: View, change: Change, part: Part) -> bool:
    if part.failures >= GIVEN_UP:
        return True
    sight = view.sights[part.plan.uuid]
    if part.failures >= TO_EMPTY:
        return plan.emptying(sight, part.plan.kept).empty
    return sights.is_as(sight, _target(change, part))


def _way(view: View, change: Change, part: Part) -> GpuPlan | None:
    """Plan a GPU's way; None where there is none that leaves alone what was to stay."""
    sight, kept = view.sights[part.plan.uuid], part.plan.kept
    if part.failures >= TO_EMPTY:
        return plan.emptying(sight, kept)
    try:
        found = plan.towards(sight, _target(change, part), plan.NOBODY, kept)
    except why.InfeasibleError:
        return None
    doomed = {device for each in found.destroy for device in each.devices}
    return None if doomed.intersection(kept) else found


def _target(change: Change, part: Part) -> Wanted:
    return part.former if part.failures >= TO_FORMER else dict(change.goal)[part.plan.uuid]


def _waits_for_boot(part: Part) -> bool:
    return part.reason is Reason.REBOOT_REQUIRED and part.failures < TO_FORMER


def _apply(view: View, change: Change, found: GpuPlan) -> Decision:
    step = words.plan(found)
    change = dataclasses.replace(change, begun=True, step=step)
    memory = dataclasses.replace(_with(view.memory, change), settled=None)
    made, left = _writes(view, change)
    said = Progress(
        stamp=view.stamp,
        phase=Phase.APPLYING,
        sentence=step,
        order=change.order,
        step=step,
        number=made,
        steps=made + left,
        since_ns=change.order,
    )
    return decision(view, memory, said, act=Apply(found))


def _writes(view: View, change: Change) -> tuple[int, int]:
    """Count the writes of a change that have been made, and those that are left as it stands."""
    resting = [part for part in change.parts if _rests(view, change, part)]
    ways = [_way(view, change, part) for part in change.parts if part not in resting]
    made = sum(len(steps.of(part.plan)) for part in resting)
    return made, sum(len(steps.of(way)) for way in ways if way is not None)


def _boot_or_go_back(view: View, change: Change) -> Decision | None:
    """A MIG mode stays pending: boot if that is allowed and was not done for this goal yet."""
    allowed = view.intent is not None and view.intent.mig_policy.reboot and not change.abandoned
    done = change.goal in view.memory.rebooted and not change.rebooting
    if not allowed or done:
        parts = tuple(
            dataclasses.replace(part, failures=TO_FORMER) if _waits_for_boot(part) else part
            for part in change.parts
        )
        return go_on(view, dataclasses.replace(change, parts=parts, rebooting=False))
    step = "boot the node: a MIG mode stays pending until then"
    change = dataclasses.replace(change, rebooting=True, step=step)
    others = tuple(each for each in view.memory.rebooted if each != change.goal)
    memory = dataclasses.replace(
        _with(view.memory, change), rebooted=(*others, change.goal), settled=None
    )
    said = Progress(
        stamp=view.stamp,
        phase=Phase.REBOOTING,
        sentence=step,
        order=change.order,
        step=step,
        since_ns=change.order,
    )
    return decision(view, memory, said, act=Reboot())


def _end(view: View, change: Change) -> Decision | None:
    """All GPUs have come as far as they come."""
    wrong = [part for part in change.parts if part.failures >= TO_FORMER]
    if not wrong or change.abandoned:
        return None
    sentences = [f"{part.plan}: {part.sentence}; {_left(view, part)}" for part in wrong]
    view = dataclasses.replace(view, memory=_with(view.memory, change))
    reason = wrong[0].reason or Reason.NVML_FAILED
    return ending.failed(view, change, reason, "; ".join(sentences), wrong)


def _left(view: View, part: Part) -> str:
    """Say what a GPU was left as."""
    sight = view.sights.get(part.plan.uuid)
    if sight is None or sight.trouble:
        return "it stays withheld"
    if sights.is_as(sight, part.former):
        return f"it is as it was before ({words.layout(part.former)})"
    layout = words.layout(sights.layout_of(sight))
    return f"it is withheld and has {layout}, before it had {words.layout(part.former)}"


def _failed(part: Part, outcome: Outcome) -> Part:
    """Count a failure. Asking again changes nothing where only others, or a boot, can help."""
    failures = part.failures + 1
    if outcome.reason is Reason.IN_USE:
        failures = max(failures, TO_FORMER)
    # The first reason is the one that explains the state; what went wrong on the way back follows.
    later = part.failures >= TO_FORMER and part.reason is not None
    return dataclasses.replace(
        part,
        failures=failures,
        reason=part.reason if later else outcome.reason,
        sentence=f"{part.sentence}, then {outcome.sentence}" if later else outcome.sentence,
        clients=part.clients or outcome.clients,
    )


def _not_booted(part: Part, outcome: Outcome) -> Part:
    if not _waits_for_boot(part):
        return part
    return dataclasses.replace(
        part, failures=TO_FORMER, sentence=f"{part.sentence}; {outcome.sentence}"
    )


def _is(sight: GpuSight | None, wanted: Wanted) -> bool:
    return sight is not None and not sight.trouble and sights.is_as(sight, wanted)


def _with(memory: Memory, change: Change) -> Memory:
    return dataclasses.replace(memory, change=change)
