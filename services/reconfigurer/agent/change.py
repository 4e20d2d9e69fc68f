"""Where a node's MIG change stands and what comes next: a `View` → a `Decision`. Pure.

Everything is decided anew after each event, from what is wanted, what is there and what is
remembered, so a crash at any point loses nothing: the next process sees the same and goes on.

    differs → plan → PREPARE → the controller has prepared → hold → HOLDING → allocator and
    advertiser have answered, nobody has a withheld slot → APPLYING (`cutting`) → SUCCESS
"""

from __future__ import annotations

import dataclasses

from services.reconfigurer.agent import cutting, ending, holders, plan, progress, words
from services.reconfigurer.agent import sight as sights
from services.reconfigurer.agent.ending import decision
from services.reconfigurer.agent.memory import Change, Failure, Part, Reason
from services.reconfigurer.agent.plan import Goal
from services.reconfigurer.agent.sight import GpuSight
from services.reconfigurer.agent.view import Decision, View
from shared.contract.messages import Drift, Intent, Phase, Progress
from shared.domain.errors import RefusedError
from shared.geometry.config import Wanted
from shared.nvml.port import GpuInstance

NO_HARDWARE = "NVML is away: the agent cannot see this node's GPUs and looks again"
NOT_TOLD = "the advertiser has not answered the newest intent, or the allocator wrote no ledger yet"
COMPONENTS = tuple(
    f"nvidia.com/gpu.deploy.{name}"
    for name in (
        "client",
        "dcgm",
        "dcgm-exporter",
        "device-plugin",
        "gpu-feature-discovery",
        "nvsm",
    )
)


def decide(view: View) -> Decision:
    """Say what comes next."""
    intent = view.intent
    if intent is None:
        return Decision(memory=view.memory)
    if view.seen is not None:
        told = view.inventory.gpus if view.inventory else ()
        seen = sights.with_lost(view.seen, told, view.memory.boards)
        memory = dataclasses.replace(view.memory, boards=sights.boards(seen))
        view = dataclasses.replace(view, seen=seen, memory=memory)
    return _decide(view, intent)


def _decide(view: View, intent: Intent) -> Decision:
    idle = Progress(
        stamp=view.stamp,
        phase=Phase.IDLE,
        sentence=progress.nothing_to_do(intent, view.inventory),
    )
    if view.seen is None:
        return _blind(view, idle)
    if not intent.mig_config:
        return _unwanted(view, idle)
    try:
        goal = plan.goal_of(intent, view.seen)
    except RefusedError as refused:
        said = Progress(
            stamp=view.stamp, phase=Phase.FAILED, reason=Reason.REFUSED, sentence=str(refused)
        )
        return _unwanted(view, said)
    return _pursue(view, goal)


def _blind(view: View, idle: Progress) -> Decision:
    """Without a look nothing changes; what was said of a change in hand goes on standing."""
    if view.memory.change is not None:
        return Decision(memory=view.memory)
    wanted = view.intent is not None and view.intent.mig_config
    said = Progress(stamp=view.stamp, phase=Phase.IDLE, sentence=NO_HARDWARE) if wanted else idle
    return Decision(memory=view.memory, said=said)


def _unwanted(view: View, said: Progress) -> Decision:
    """Nothing can be aimed at: what has been begun is undone, else all is let go."""
    change = view.memory.change
    if change is not None and change.begun:
        going_back = cutting.abandoned(change, view)
        result = cutting.go_on(view, going_back)
        if result is not None:
            return result
    memory = dataclasses.replace(ending.over(view.memory), failure=None, closed=())
    return decision(view, memory, said)


def _pursue(view: View, goal: Goal) -> Decision:
    change = view.memory.change
    if change is not None and (change.goal != goal or change.abandoned):
        view = dataclasses.replace(view, memory=ending.dropped(view.memory, view.sights))
        change = None
    if change is None:
        return _start(view, goal)
    if change.begun:
        return cutting.go_on(view, _of_now(view, change)) or _start(ending.without(view), goal)
    if not _still_fits(view, change):
        return _start(ending.without(view), goal)
    return _make_room(view, _of_now(view, change))


def _start(view: View, goal: Goal) -> Decision:
    """No change is in hand: begin one if GPUs differ and nothing speaks against it."""
    differing = plan.differing(goal, view.seen or ())
    ready = tuple(each for each in differing if not each.trouble)
    if not differing:
        return ending.succeeded(view, goal)
    if not ready:
        return ending.unavailable(view, goal, differing)
    failure = _still_failed(view, goal, ready)
    if failure is not None:
        return ending.stays_failed(view, failure)
    if _is_drift(view, goal):
        return ending.drifted(view, goal, ready)
    inventory, ledger = view.inventory, view.ledger
    if inventory is None or ledger is None or inventory.stamp.generation < view.generation:
        return decision(
            view, view.memory, Progress(stamp=view.stamp, phase=Phase.IDLE, sentence=NOT_TOLD)
        )
    change = _planned(view, goal, ready, holders.by_device(ledger))
    memory = dataclasses.replace(view.memory, change=change, order=change.order)
    return _make_room(dataclasses.replace(view, memory=memory), change)


def _still_failed(view: View, goal: Goal, ready: tuple[GpuSight, ...]) -> Failure | None:
    """Return the failure that keeps a goal from being tried now.

    One that only a boot helps is over when people have brought the mode into force themselves.
    """
    failure, intent = view.memory.failure, view.intent
    if failure is None or failure.goal != goal or intent is None:
        return None
    if failure.retry_ns is None:
        may_boot = intent.mig_policy.reboot and goal not in view.memory.rebooted
        wanted = dict(goal)
        switches = any(plan.mode_to_set(each, wanted[each.uuid]) is not None for each in ready)
        return failure if switches and not may_boot else None
    if view.now_ns < failure.retry_ns:
        return failure
    pids = {client.pid for client in failure.clients}
    there = {client.pid for client in view.clients}
    there |= {pid for each in view.seen or () for pid in each.pids()}
    return ending.again_later(view, failure) if pids & there else None


def _is_drift(view: View, goal: Goal) -> bool:
    intent = view.intent
    policy = intent.mig_policy.drift if intent else Drift.REPAIR
    return view.memory.settled == goal and policy is Drift.REPORT


def _planned(view: View, goal: Goal, ready: tuple[GpuSight, ...], people: plan.Holders) -> Change:
    wanted = dict(goal)
    before = {each.uuid: each.former for each in view.memory.closed}
    parts = tuple(
        Part(
            plan=plan.towards(each, wanted[each.uuid], people),
            former=before.get(each.uuid, sights.layout_of(each)),
        )
        for each in ready
    )
    return Change(
        order=max(view.memory.order + 1, view.now_ns),
        generation=view.generation,
        goal=goal,
        parts=parts,
        traceparent=view.traceparent,
    )


def _of_now(view: View, change: Change) -> Change:
    """Carry a change over to the newest generation, which wants the same, with what it tells.

    Nobody can get a slot while a hold stands, so who has ended once holds none again.
    """
    if change.generation != view.generation:
        traceparent = view.traceparent or change.traceparent
        return dataclasses.replace(change, generation=view.generation, traceparent=traceparent)
    told = view.intent.ended if view.intent and _answered(view, change) else ()
    return dataclasses.replace(change, ended=tuple(sorted({*change.ended, *told})))


def _answered(view: View, change: Change) -> bool:
    """Whether the controller has met the demands of this very attempt."""
    intent = view.intent
    return intent is not None and (
        (intent.prepared_for, intent.prepared_order) == (change.generation, change.order)
    )


def _still_fits(view: View, change: Change) -> bool:
    """Whether the GPUs are still those that were planned for: nothing has been done yet."""
    differing = plan.differing(change.goal, view.seen or ())
    ready = {each.uuid: each for each in differing if not each.trouble}
    return ready.keys() == set(change.recut) and all(
        _is_base(part, ready[part.plan.uuid], dict(change.goal)[part.plan.uuid])
        for part in change.parts
    )


def _is_base(part: Part, sight: GpuSight, wanted: Wanted) -> bool:
    kept = [each for each in sight.instances if each not in part.plan.destroy]
    return (
        len(kept) + len(part.plan.destroy) == len(sight.instances)
        and _devices(kept) == set(part.plan.kept)
        and part.plan.mode == plan.mode_to_set(sight, wanted)
    )


def _devices(instances: list[GpuInstance]) -> set[str]:
    return {device for each in instances for device in each.devices}


def _make_room(view: View, change: Change) -> Decision:
    """Before the first write: have the controller prepare, withhold, wait until nobody is there."""
    change = _with_slots(view, change)
    if not (_answered(view, change) or change.quiet):
        if change.prepared == change.generation:  # withdrawn: what was held is free again
            return _start(ending.without(view), change.goal)
        return _prepare(view, change)
    held_ns = change.held_ns or view.now_ns
    change = dataclasses.replace(change, prepared=change.generation, held_ns=held_ns)
    missing = cutting.missing(view, change) or _running(view, change)
    if not missing:
        begun = dataclasses.replace(change, begun=True)
        return cutting.go_on(view, begun) or _start(ending.without(view), change.goal)
    return cutting.wait(view, change, missing)


def _with_slots(view: View, change: Change) -> Change:
    """Name the slots that are to be withheld, as long as they are not."""
    if change.held_ns or view.inventory is None or view.ledger is None:
        return change
    slots = holders.withheld(view.inventory, view.ledger, change.recut, change.kept)
    return dataclasses.replace(change, slots=slots)


def _prepare(view: View, change: Change) -> Decision:
    what = "; ".join(words.plan(part.plan) for part in change.parts)
    said = Progress(
        stamp=view.stamp,
        phase=Phase.PREPARE,
        sentence=f"{what}; the controller prepares the node",
        order=change.order,
        slots=change.slots,
        blockers=holders.blockers(cutting.busy(view, change)),
        components=COMPONENTS if change.release_nvml else (),
        since_ns=change.order,
    )
    return decision(view, dataclasses.replace(view.memory, change=change), said)


def _running(view: View, change: Change) -> str:
    """Say what NVML still sees on what is to go."""
    for part in change.parts:
        sight = view.sights[part.plan.uuid]
        doomed = None if part.plan.switches else [each.id for each in part.plan.destroy]
        pids = sight.pids(doomed)
        if pids:
            return f"on {sight} still runs process {words.listed(map(str, pids))}"
    return ""
