"""Sights + what is wanted → what has to be done to each GPU that differs. Pure.

`change` plans before anything is touched, and again after each failure. A GPU that is as it is
wanted has no plan, so nothing is ever done to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from services.reconfigurer.agent import sight as sights
from services.reconfigurer.agent.sight import GpuSight
from shared.contract.messages import Intent
from shared.geometry import plan as geometry
from shared.geometry import resolve, why
from shared.geometry.board import Instance, Layout
from shared.geometry.config import GeometryConfig, Wanted
from shared.nvml.port import GpuInstance

Goal = tuple[tuple[str, Wanted], ...]  # by GPU UUID, in the order of the UUIDs
Holders = Mapping[str, tuple[str, ...]]  # who holds a device, by its UUID
NOBODY: Holders = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPlan:
    """What has to be done to one GPU; `kept` are UUIDs of MIG devices that nobody touches.

    `enabled` is the MIG mode that is in force, `mode` what is to be asked for, if anything.
    """

    index: int
    uuid: str
    enabled: bool
    mode: bool | None = None
    destroy: tuple[GpuInstance, ...] = ()
    create: Layout = ()
    kept: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"GPU {self.index}"

    @property
    def switches(self) -> bool:
        """Whether another MIG mode comes into force, which only an idle GPU can do."""
        return self.mode is not None and self.mode is not self.enabled

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return self.mode is None and not self.destroy and not self.create


def goal_of(intent: Intent, seen: Iterable[GpuSight]) -> Goal:
    """Say what each GPU is to be.

    Raises:
        RefusedError: the name is unknown, or a GPU cannot be so; nothing may be touched.
    """
    readable = [each for each in seen if each.board is not None or not each.trouble]
    rows = {intent.mig_config: intent.mig_rows} if intent.mig_rows else {}
    targets = [_target(each) for each in readable]
    wanted = resolve.resolve(GeometryConfig(names=rows), intent.mig_config, targets).wanted
    uuids = {each.gpu.index: each.uuid for each in readable}
    return tuple(sorted((uuids[index], each) for index, each in wanted.items()))


def differing(goal: Goal, seen: Iterable[GpuSight]) -> tuple[GpuSight, ...]:
    """Return the GPUs that are not as they are wanted."""
    wanted = dict(goal)
    return tuple(
        each for each in seen if each.uuid in wanted and not sights.is_as(each, wanted[each.uuid])
    )


def towards(
    sight: GpuSight, wanted: Wanted, holders: Holders, kept: Collection[str] = ()
) -> GpuPlan:
    """Plan one GPU's way. Devices in `kept` were promised to stay, so they weigh as if held.

    Raises:
        InfeasibleError: the layout does not fit the board.
    """
    if sight.board is None:
        raise why.InfeasibleError(f"{sight} cannot do MIG")
    whole = {sights.place_of(each): each for each in sight.instances if each.whole}
    parts = tuple(each for each in sight.instances if not each.whole)
    current = geometry.Current(
        enabled=sight.gpu.mig_enabled,
        standing=tuple(
            geometry.Standing(place, _weights(each, sight, holders, kept))
            for place, each in whole.items()
        ),
        holders=holders.get(sight.uuid, ()),
    )
    found = geometry.towards(sight.board, current, wanted)
    return GpuPlan(
        index=sight.gpu.index,
        uuid=sight.uuid,
        enabled=sight.gpu.mig_enabled,
        mode=mode_to_set(sight, wanted),
        destroy=tuple(sorted((*parts, *_there(whole, found.destroy)), key=_by_place)),
        create=found.create,
        kept=_devices(_there(whole, found.keep)),
    )


def mode_to_set(sight: GpuSight, wanted: Wanted) -> bool | None:
    """Return the MIG mode to ask for, None where it is in force and no other is pending."""
    right = sight.gpu.mig_enabled is wanted.enabled and not sight.pending
    return None if right else wanted.enabled


def emptying(sight: GpuSight, kept: Collection[str]) -> GpuPlan:
    """Plan to take everything away that was not promised to stay."""
    promised = frozenset(kept)
    stays = tuple(each for each in sight.instances if promised.intersection(each.devices))
    return GpuPlan(
        index=sight.gpu.index,
        uuid=sight.uuid,
        enabled=sight.gpu.mig_enabled,
        destroy=tuple(each for each in sight.instances if each not in stays),
        kept=_devices(stays),
    )


def _weights(
    instance: GpuInstance, sight: GpuSight, holders: Holders, kept: Collection[str]
) -> tuple[str, ...]:
    """Name who holds an instance, pods or else processes; later only what was promised counts."""
    if kept:
        return ("kept",) if frozenset(kept).intersection(instance.devices) else ()
    pods = tuple(name for device in instance.devices for name in holders.get(device, ()))
    return pods or tuple(f"process {pid}" for pid in sight.pids((instance.id,)))


def _target(sight: GpuSight) -> resolve.Target:
    return resolve.Target(
        index=sight.gpu.index,
        model=sight.gpu.model,
        pci_device=sight.gpu.pci_device,
        board=sight.board,
    )


def _there(whole: Mapping[Instance, GpuInstance], places: Layout) -> tuple[GpuInstance, ...]:
    return tuple(whole[place] for place in places)


def _devices(instances: Iterable[GpuInstance]) -> tuple[str, ...]:
    return tuple(device for instance in instances for device in instance.devices)


def _by_place(instance: GpuInstance) -> tuple[int, int]:
    return instance.start, instance.id
