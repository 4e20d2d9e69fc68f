"""What one look of the agent shows of a node's GPUs, as far as MIG is concerned. Pure values.

`looking` makes them of NVML; `plan` and `change` decide by them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from shared.contract.messages import Cuttable
from shared.domain.gpu import Gpu, MigDevice
from shared.geometry.board import Board, Instance
from shared.geometry.config import Wanted
from shared.nvml.port import GpuInstance, GpuProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSight:
    """One GPU. `board` is None where it cannot do MIG, or has never answered.

    `trouble` says why the GPU cannot be read now; the rest is then what was last known.
    """

    gpu: Gpu
    board: Board | None
    instances: tuple[GpuInstance, ...] = ()
    processes: tuple[GpuProcess, ...] = ()
    trouble: str = ""

    def __str__(self) -> str:
        return f"GPU {self.gpu.index}"

    @property
    def uuid(self) -> str:
        """The GPU's UUID."""
        return self.gpu.uuid

    @property
    def pending(self) -> bool:
        """Whether a MIG mode has been asked for that is not in force."""
        mode = self.gpu.mig_mode
        return mode is not None and mode.current != mode.pending

    def pids(self, instances: Iterable[int] | None = None) -> tuple[int, ...]:
        """Processes of the GPU, or of these GPU instances of it."""
        among = None if instances is None else frozenset(instances)
        return tuple(
            sorted(
                each.pid for each in self.processes if among is None or each.gpu_instance in among
            )
        )


def place_of(instance: GpuInstance) -> Instance:
    """Where an instance stands, as geometry says it."""
    return Instance(instance.profile, instance.start)


def layout_of(sight: GpuSight) -> Wanted:
    """Put what a GPU is into the words for what it is wanted to be; parts of instances left out."""
    counts = Counter(each.profile for each in sight.instances if each.whole)
    return Wanted(enabled=sight.gpu.mig_enabled, counts=tuple(sorted(counts.items())))


def is_as(sight: GpuSight, wanted: Wanted) -> bool:
    """Whether a GPU is what it is wanted to be, with nothing pending and nothing in parts."""
    in_parts = any(not each.whole for each in sight.instances)
    return not sight.pending and not in_parts and layout_of(sight) == wanted


def with_lost(
    seen: Iterable[GpuSight], told: Iterable[Gpu], known: Iterable[Cuttable]
) -> tuple[GpuSight, ...]:
    """Add the GPUs that were lost before this process could see them, as they were last known.

    Args:
        seen: what NVML shows.
        told: GPUs of the inventory, whose writer has seen them before.
        known: what GPUs could be cut into when they were seen.
    """
    there = {each.uuid: each for each in seen}
    of = {uuid: each.board for each in known for uuid in each.gpus}
    lost = [gpu for gpu in told if gpu.uuid not in there and not gpu.health.usable]
    added = [
        GpuSight(
            gpu=gpu,
            board=of.get(gpu.uuid),
            instances=tuple(map(_instance, gpu.mig_devices)),
            trouble=gpu.health.reason,
        )
        for gpu in lost
    ]
    return tuple(sorted((*there.values(), *added), key=lambda each: each.gpu.index))


def _instance(device: MigDevice) -> GpuInstance:
    return GpuInstance(
        id=device.gpu_instance,
        profile=device.profile,
        start=device.start,
        size=device.size,
        devices=(device.uuid,),
        whole=True,
    )


def boards(seen: Iterable[GpuSight]) -> tuple[Cuttable, ...]:
    """Say what the GPUs can be cut into, equal ones together."""
    found: dict[Board, list[str]] = {}
    for each in seen:
        if each.board is not None:
            found.setdefault(each.board, []).append(each.uuid)
    return tuple(Cuttable(gpus=tuple(uuids), board=board) for board, uuids in found.items())
