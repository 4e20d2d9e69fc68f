"""A look at the hardware + the wanted sharing → what to publish, or nothing. Pure; `loop` acts.

The content says nothing about holders and slots: those are the allocator's.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from services.advertiser import health, mps
from shared.contract.facts import Fact, FactKind
from shared.contract.generation import Generation
from shared.contract.messages import Hold, Intent, Inventory, Stamp
from shared.domain.errors import Problem, RefusedError
from shared.domain.gpu import Gpu, Hardware, Health, HealthState
from shared.domain.health import NO_VERDICTS, HealthRecord
from shared.domain.sharing import Share, Strategy
from shared.nvml import capabilities
from shared.sharing import shares


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the advertiser knows: its verdicts, and what it published last (None: nothing yet).

    `health` is newer than what was published, which it becomes part of.

    `is_remembered`: a process before this one published it, and the bus may have lost it since.
    `is_of_former_boot`: it did so before the node booted, so its GPUs may have been taken out.
    """

    health: HealthRecord = NO_VERDICTS
    published: Inventory | None = None
    is_remembered: bool = False
    is_of_former_boot: bool = False


def restored(saved: Inventory | None, *, same_boot: bool) -> State:
    """Start from an earlier process's inventory; verdicts of another boot are forgotten."""
    if saved is None:
        return State()
    return State(
        health=health.remembered(saved.health, same_boot=same_boot),
        published=saved,
        is_remembered=True,
        is_of_former_boot=not same_boot,
    )


def after_look(
    state: State,
    hardware: Hardware,
    intent: Intent | None,
    stamp: Stamp,
    now: int,
    *,
    paused: Hold | None = None,
    recut: tuple[str, ...] = (),
    report: mps.Report = mps.NOTHING,
) -> Inventory | None:
    """Return the inventory to publish, None while nothing that it says has changed.

    The first look of a process always gives one: who keeps a value standing has to have said it.

    `paused` is the hold for which NVML has been let go, `recut` are the GPUs for which it is to be.

    Until the first intent arrives the shares that were published last go on; a node that never
    had one offers nothing yet, so that no pod takes a card whole that is about to be shared.
    """
    gpus = _judged(state, hardware, now) if paused is None else hardware.gpus
    offered, problems = _wanted(state, gpus, intent)
    inventory = Inventory(
        stamp=dataclasses.replace(stamp, generation=_generation(state, intent, stamp)),
        driver_version=hardware.driver_version,
        cuda_version=hardware.cuda_version,
        gpus=gpus,
        shares=offered,
        problems=problems,
        mps=mps.daemons(offered, report, state.published.mps if state.published else (), now),
        recut=recut,
        health=state.health,
        paused_for=paused.stamp.generation if paused else None,
        paused_order=paused.order if paused else 0,
    )
    is_news = state.is_remembered or _says(inventory) != _says(state.published)
    return inventory if is_news else None


def with_nodes(hardware: Hardware, minors: capabilities.Minors) -> Hardware:
    """Give each MIG device the device nodes that guard it."""
    return dataclasses.replace(
        hardware, gpus=tuple(_with_nodes(gpu, minors) for gpu in hardware.gpus)
    )


def without_driver(state: State, why: str) -> Hardware | None:
    """What a look shows while NVML itself is away: the GPUs known so far, all lost."""
    return without_answer(state, Health(state=HealthState.LOST, reason=why))


def without_answer(state: State, verdict: Health) -> Hardware | None:
    """What a look shows that tells of no GPU: those known so far, with one verdict on them all.

    It stands in place of what was published of each, so an XID that came since still counts.
    """
    known = unseen(state)
    if known is None:
        return None
    gpus = tuple(dataclasses.replace(gpu, health=verdict) for gpu in known.gpus)
    return dataclasses.replace(known, gpus=gpus)


def unseen(state: State) -> Hardware | None:
    """What is known while NVML is let go on purpose: what was published last, as it was."""
    if state.published is None or state.is_of_former_boot:
        return None
    return Hardware(
        driver_version=state.published.driver_version,
        cuda_version=state.published.cuda_version,
        gpus=state.published.gpus,
    )


def words(content: Inventory) -> str:
    """Say in a few words what devices there are, and what they offer."""
    instances = sum(len(gpu.mig_devices) for gpu in content.gpus)
    offers: Counter[str] = Counter()
    for share in content.shares:
        offers[share.resource] += share.replicas
    listed = ", ".join(f"{count} x {name}" for name, count in sorted(offers.items()))
    mig = f", {instances} MIG devices" if instances else ""
    return f"{len(content.gpus)} GPUs{mig}; offered: {listed or 'nothing'}"


def health_facts(before: Inventory | None, after: Inventory, now: int) -> tuple[Fact, ...]:
    """One fact for each device whose health differs; a GPU's fact speaks for its MIG devices."""
    return tuple(
        _health_fact(after.stamp, gpu.uuid, uuid, verdict, now)
        for gpu, uuid, verdict in health_changes(before, after)
    )


def health_changes(before: Inventory | None, after: Inventory) -> list[tuple[Gpu, str, Health]]:
    """Each device whose health differs, with its GPU; a GPU stands for its MIG devices."""
    former = {gpu.uuid: gpu for gpu in before.gpus} if before else {}
    return [
        (gpu, uuid, verdict)
        for gpu in after.gpus
        if gpu.uuid in former
        for uuid, verdict in _changed(former[gpu.uuid], gpu)
    ]


def is_recut(before: Inventory | None, after: Inventory, gpus: Collection[str]) -> bool:
    """Whether one of these GPUs has other MIG devices than before."""
    former = {gpu.uuid: gpu for gpu in before.gpus} if before is not None else {}
    return any(
        gpu.uuid in gpus and gpu.uuid in former and _devices(gpu) != _devices(former[gpu.uuid])
        for gpu in after.gpus
    )


def _devices(gpu: Gpu) -> set[str]:
    return {device.uuid for device in gpu.mig_devices}


def _judged(state: State, hardware: Hardware, now: int) -> tuple[Gpu, ...]:
    known = unseen(state)
    before = {gpu.uuid: gpu for gpu in known.gpus} if known else {}
    verdicts = health.standing(state.health)
    return tuple(
        health.judged(gpu, verdicts, before.get(gpu.uuid), now)
        for gpu in _with_the_vanished(hardware.gpus, before)
    )


def _with_nodes(gpu: Gpu, minors: capabilities.Minors) -> Gpu:
    return dataclasses.replace(
        gpu,
        mig_devices=tuple(
            dataclasses.replace(
                device,
                nodes=capabilities.nodes(
                    minors, gpu.minor, device.gpu_instance, device.compute_instance
                ),
            )
            for device in gpu.mig_devices
        ),
    )


def _changed(before: Gpu, after: Gpu) -> list[tuple[str, Health]]:
    if before.health.state is not after.health.state:
        return [(after.uuid, after.health)]
    former = {device.uuid: device.health.state for device in before.mig_devices}
    return [
        (device.uuid, device.health)
        for device in after.mig_devices
        if former.get(device.uuid, device.health.state) is not device.health.state
    ]


def _with_the_vanished(seen: tuple[Gpu, ...], before: dict[str, Gpu]) -> tuple[Gpu, ...]:
    """GPUs that NVML no longer lists stay as lost, unless another GPU stands in their place."""
    uuids = {gpu.uuid for gpu in seen}
    places = {gpu.pci_bus_id for gpu in seen}
    gone = Health(state=HealthState.LOST, reason="NVML no longer lists this GPU: check the host")
    lost = [
        dataclasses.replace(gpu, health=gone)
        for gpu in before.values()
        if gpu.uuid not in uuids and gpu.pci_bus_id not in places
    ]
    return tuple(sorted((*seen, *lost), key=lambda gpu: (gpu.index, gpu.uuid)))


def _wanted(
    state: State, gpus: tuple[Gpu, ...], intent: Intent | None
) -> tuple[tuple[Share, ...], tuple[Problem, ...]]:
    """The shares to publish, and why they are not those that the intent asks for."""
    if intent is None:
        problems = state.published.problems if state.published else ()
        return _kept(state, gpus), problems
    try:
        return shares.shares(gpus, intent.sharing).shares, ()
    except RefusedError as refused:
        return _kept(state, gpus), refused.problems


def _kept(state: State, gpus: tuple[Gpu, ...]) -> tuple[Share, ...]:
    """The former shares of devices that are still there; a GPU that was cut since has no MPS."""
    present = {gpu.uuid: gpu.mig_enabled for gpu in gpus}
    present |= {device.uuid: True for gpu in gpus for device in gpu.mig_devices}
    kept = state.published.shares if state.published else ()
    return tuple(
        share
        for share in kept
        if share.uuid in present
        and not (share.strategy is Strategy.MPS and present[share.gpu_uuid])
    )


def _generation(state: State, intent: Intent | None, stamp: Stamp) -> Generation:
    if intent is not None:
        return intent.stamp.generation
    return state.published.stamp.generation if state.published else stamp.generation


def _says(inventory: Inventory | None) -> object:
    if inventory is None:
        return None
    return (
        inventory.driver_version,
        inventory.cuda_version,
        inventory.gpus,
        inventory.shares,
        inventory.problems,
        inventory.mps,
        inventory.recut,
        inventory.health,
        inventory.stamp.generation,
        inventory.paused_for,
        inventory.paused_order,
    )


def _health_fact(stamp: Stamp, gpu_uuid: str, uuid: str, verdict: Health, now: int) -> Fact:
    why = f": {verdict.reason}" if verdict.reason else ""
    return Fact(
        stamp=stamp,
        id=f"health/{uuid}/{verdict.state}/{verdict.since_ns or now}",
        kind=FactKind.HEALTH,
        at_ns=now,
        sentence=f"{uuid} is {verdict.state}{why}",
        gpu_uuid=gpu_uuid,
    )
