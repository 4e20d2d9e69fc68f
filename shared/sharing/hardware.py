"""GPUs as the devices that a MIG strategy makes of them, each with its resource name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from shared.domain.gpu import Gpu, MigDevice
from shared.domain.sharing import GPU_RESOURCE, MigStrategy
from shared.sharing import names


@dataclass(frozen=True, slots=True)
class Device:
    """Something that can be handed out: a GPU ("0") or a MIG device ("1:0")."""

    ref: str
    uuid: str
    gpu: Gpu
    resource: str
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Devices:
    """All devices of a node in index order; with a `conflict` none of them can be handed out."""

    devices: tuple[Device, ...]
    conflict: str = ""
    remarks: tuple[str, ...] = ()


def devices(gpus: tuple[Gpu, ...], strategy: MigStrategy) -> Devices:
    """Name the devices of a node as NVIDIA's plugin does under the same strategy."""
    if strategy is MigStrategy.NONE:
        return Devices(tuple(_whole(gpu) for gpu in gpus))
    if strategy is MigStrategy.SINGLE:
        return Devices(tuple(_cut(gpus, single=True)), single_conflict(gpus))
    return Devices(tuple(_cut(gpus, single=False)), remarks=tuple(_remarks(gpus)))


def single_conflict(gpus: tuple[Gpu, ...]) -> str:
    """Say why strategy single cannot name the devices of these GPUs, "" if it can."""
    cut = [gpu for gpu in gpus if gpu.mig_enabled]
    if not cut:
        return ""
    whole = [gpu for gpu in gpus if not gpu.mig_enabled]
    if whole:
        return (
            f"migStrategy single needs the same MIG mode on all GPUs: GPU {cut[0].index} has it on,"
            f" GPU {whole[0].index} off"
        )
    empty = next((gpu for gpu in cut if not gpu.mig_devices), None)
    if empty is not None:
        return f"migStrategy single: GPU {empty.index} has MIG on and no MIG device yet"
    profiles = sorted({device.profile for gpu in cut for device in gpu.mig_devices})
    if len(profiles) > 1:
        return f"migStrategy single needs one MIG profile on the node, found {', '.join(profiles)}"
    return ""


def _cut(gpus: tuple[Gpu, ...], *, single: bool) -> Iterator[Device]:
    for gpu in gpus:
        if not gpu.mig_enabled:
            yield _whole(gpu)
            continue
        for mig in gpu.mig_devices:
            if single:
                yield Device(f"{gpu.index}:{mig.index}", mig.uuid, gpu, GPU_RESOURCE)
            elif not _is_fraction(mig):
                resource = names.mig_resource(mig.profile)
                yield Device(f"{gpu.index}:{mig.index}", mig.uuid, gpu, resource)


def _whole(gpu: Gpu) -> Device:
    parts = tuple(mig.uuid for mig in gpu.mig_devices)
    return Device(str(gpu.index), gpu.uuid, gpu, GPU_RESOURCE, parts)


def _remarks(gpus: tuple[Gpu, ...]) -> Iterator[str]:
    for gpu in gpus:
        if gpu.mig_enabled and not gpu.mig_devices:
            yield f"GPU {gpu.index} has MIG on and no MIG device yet: nothing is advertised for it"
        for mig in filter(_is_fraction, gpu.mig_devices):
            yield (
                f"MIG device {gpu.index}:{mig.index} ({mig.profile}) is a part of a GPU instance:"
                " it has no resource name and is not advertised"
            )


def _is_fraction(mig: MigDevice) -> bool:
    """Whether the profile is a compute instance smaller than its GPU instance ("1c.3g.20gb")."""
    return "c." in mig.profile
