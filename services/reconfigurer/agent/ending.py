"""How a change ends, and the hold that goes with every decision. Pure; `cutting` asks too."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from services.reconfigurer.agent import sight as sights
from services.reconfigurer.agent import words
from services.reconfigurer.agent.memory import Change, Closed, Failure, Memory, Part, Reason
from services.reconfigurer.agent.plan import Goal
from services.reconfigurer.agent.sight import GpuSight
from services.reconfigurer.agent.view import Act, Decision, View
from shared.contract.messages import Hold, Phase, Progress
from shared.domain.gpu import Gpu
from shared.geometry.config import Wanted


def decision(
    view: View, memory: Memory, said: Progress, act: Act | None = None, wake_ns: int | None = None
) -> Decision:
    """Join what is said with the hold that follows from the memory."""
    unshown = tuple(uuid for uuid in memory.unshown if not _is_shown(view, uuid))
    memory = dataclasses.replace(memory, unshown=unshown)
    return Decision(memory=memory, said=said, hold=_hold(view, memory), act=act, wake_ns=wake_ns)


def without(view: View) -> View:
    """Forget a change that has touched nothing, or has come to its goal."""
    return dataclasses.replace(view, memory=over(view.memory))


def over(memory: Memory) -> Memory:
    """Forget a change; what it may have cut stays withheld until the inventory shows it."""
    change = memory.change
    cut = change.recut if change is not None and change.begun else ()
    unshown = tuple(dict.fromkeys((*memory.unshown, *cut)))
    return dataclasses.replace(memory, change=None, unshown=unshown)


def dropped(memory: Memory, there: Mapping[str, GpuSight]) -> Memory:
    """Forget a change whose goal is no longer wanted; what it has half cut stays closed."""
    change = memory.change
    if change is None or not change.begun:
        return over(memory)
    return dataclasses.replace(over(memory), closed=_closed(memory, change, there))


def succeeded(view: View, goal: Goal) -> Decision:
    """Every GPU is as it is wanted."""
    memory = dataclasses.replace(
        over(view.memory),
        settled=goal,
        failure=None,
        closed=(),
        rebooted=tuple(each for each in view.memory.rebooted if each != goal),
    )
    sentence = words.goal(goal, view.seen or ()) or "no GPU of this node is meant"
    return decision(
        view, memory, Progress(stamp=view.stamp, phase=Phase.SUCCESS, sentence=sentence)
    )


def unavailable(view: View, goal: Goal, differing: Sequence[GpuSight]) -> Decision:
    """All that is left to do is on GPUs that do not answer."""
    wanted = dict(goal)
    sentence = "; ".join(
        f"{each} cannot become {words.layout(wanted[each.uuid])}: {each.trouble}"
        for each in differing
    )
    said = Progress(
        stamp=view.stamp, phase=Phase.FAILED, reason=Reason.GPU_UNAVAILABLE, sentence=sentence
    )
    return decision(view, view.memory, said)


def drifted(view: View, goal: Goal, differing: Sequence[GpuSight]) -> Decision:
    """Somebody has changed what we had made, and policy is to leave it."""
    wanted = dict(goal)
    sentence = "; ".join(
        f"{each} was changed by hand: it is {words.layout(sights.layout_of(each))}, wanted is"
        f" {words.layout(wanted[each.uuid])}"
        for each in differing
    )
    said = Progress(
        stamp=view.stamp,
        phase=Phase.FAILED,
        reason=Reason.DRIFT,
        sentence=f"{sentence}; undo it, or set the drift policy to repair",
    )
    return decision(view, view.memory, said)


def failed(
    view: View, change: Change, reason: Reason, sentence: str, clients: Sequence[Part] = ()
) -> Decision:
    """Give an attempt up; it is made again later, but not where only a reboot helps."""
    former = view.memory.failure
    count = former.count + 1 if former is not None and former.goal == change.goal else 1
    boots = reason is Reason.REBOOT_REQUIRED
    failure = Failure(
        goal=change.goal,
        reason=reason,
        sentence=sentence,
        count=count,
        retry_ns=None if boots else view.now_ns + _pause_ns(view, count),
        clients=tuple(client for part in clients for client in part.clients),
    )
    view = dataclasses.replace(view, memory=dropped(view.memory, view.sights))
    return stays_failed(view, failure)


def stays_failed(view: View, failure: Failure) -> Decision:
    """Say again why a goal was not reached."""
    said = Progress(
        stamp=view.stamp,
        phase=Phase.FAILED,
        reason=failure.reason,
        sentence=failure.sentence,
        until_ns=failure.retry_ns or 0,
    )
    memory = dataclasses.replace(view.memory, failure=failure)
    return decision(view, memory, said, wake_ns=failure.retry_ns)


def again_later(view: View, failure: Failure) -> Failure:
    """What was in the way still is: nobody is disturbed for another try."""
    count = failure.count + 1
    return dataclasses.replace(failure, count=count, retry_ns=view.now_ns + _pause_ns(view, count))


def _pause_ns(view: View, count: int) -> int:
    limits = view.limits
    return min(limits.longest_retry_ns, limits.first_retry_ns << min(count - 1, 32))


def _closed(memory: Memory, change: Change, there: Mapping[str, GpuSight]) -> tuple[Closed, ...]:
    """Return the GPUs that are neither as wanted nor as before; others' news is kept."""
    wanted = dict(change.goal)
    elsewhere = [each for each in memory.closed if each.uuid not in change.recut]
    half_cut = [
        Closed(uuid=part.plan.uuid, former=part.former, kept=part.plan.kept)
        for part in change.parts
        if not _is_one_of(there.get(part.plan.uuid), (wanted[part.plan.uuid], part.former))
    ]
    return (*elsewhere, *half_cut)


def _is_one_of(sight: GpuSight | None, layouts: Sequence[Wanted]) -> bool:
    return sight is not None and any(sights.is_as(sight, each) for each in layouts)


def _hold(view: View, memory: Memory) -> Hold:
    """The hold of a change that has one, and of GPUs whose offers are not to be trusted."""
    change = memory.change if memory.change and memory.change.held_ns else None
    kept = {uuid: _in_both(view, uuid) for uuid in memory.unshown}
    kept |= {each.uuid: each.kept for each in memory.closed}
    kept |= dict.fromkeys(change.recut, change.kept) if change else {}
    if not kept:
        return Hold(stamp=view.stamp)
    return Hold(
        stamp=view.stamp,
        order=change.order if change else memory.order,
        slots=change.slots if change else (),
        recut=tuple(kept),
        kept=tuple(dict.fromkeys(device for devices in kept.values() for device in devices)),
        ended=change.ended if change else (),
        release_nvml=change.release_nvml if change else False,
        reason=_why(change, memory),
    )


def _why(change: Change | None, memory: Memory) -> str:
    if change is not None:
        return "its GPU is being cut anew"
    half_cut = "its GPU was left half cut"
    return half_cut if memory.closed else "its GPU's new layout is not in the inventory yet"


def _is_shown(view: View, uuid: str) -> bool:
    """Whether the inventory offers nothing of a GPU but what is there."""
    sight, told = view.sights.get(uuid), _told(view, uuid)
    if sight is None or sight.trouble or told is None:
        return True  # then it is unhealthy, or not offered at all
    return told.mig_mode == sight.gpu.mig_mode and _devices(told) == _devices(sight.gpu)


def _in_both(view: View, uuid: str) -> tuple[str, ...]:
    """Name the devices of a GPU that are there and that the inventory shows."""
    sight, told = view.sights.get(uuid), _told(view, uuid)
    found = _devices(sight.gpu) & _devices(told) if sight and told else frozenset()
    return tuple(sorted(found))


def _told(view: View, uuid: str) -> Gpu | None:
    gpus = view.inventory.gpus if view.inventory else ()
    return next((gpu for gpu in gpus if gpu.uuid == uuid), None)


def _devices(gpu: Gpu) -> frozenset[str]:
    return frozenset(device.uuid for device in gpu.mig_devices)
