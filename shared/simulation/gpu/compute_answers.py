"""What the simulated driver answers about compute instances, the shares of a GPU instance.

`READING` and `WRITING` join `answers.ANSWERS`, where the form of these functions is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shared.nvml.errors import Code
from shared.simulation.gpu import handles, lifecycle, rules
from shared.simulation.gpu.catalogue import ComputeProfile, Profile
from shared.simulation.gpu.state import Instance, MigDevice, Node

PROFILE_NUMBERS = 0x9  # NVML_COMPUTE_INSTANCE_PROFILE_COUNT

Out = list[Any]


def multiprocessors(profile: Profile, compute: ComputeProfile) -> int:
    """Share a GPU instance's multiprocessors by slices, as A100 does; later boards: unpublished."""
    return (profile.multiprocessors or 0) * compute.slices // profile.slices


def shared_engines(profile: Profile) -> dict[str, int]:
    """Every compute instance reports all engines of its GPU instance."""
    return {
        "sharedCopyEngineCount": profile.copy_engines or 0,
        "sharedDecoderCount": profile.decoders or 0,
        "sharedEncoderCount": profile.encoders or 0,
        "sharedJpegCount": profile.jpeg or 0,
        "sharedOfaCount": profile.ofa or 0,
    }


def device_name(device: MigDevice) -> str:
    """Spell a MIG device as the driver does: `1c.3g.40gb` where it is a part of its instance."""
    instance, compute = device
    return _name(instance, compute.profile)


def _name(instance: Instance, compute: ComputeProfile) -> str:
    profile = instance.profile
    part = "" if compute.slices == profile.slices else f"{compute.slices}c."
    return f"{part}{profile.name}"


def _compute_profile(instance: Instance, profile_id: int) -> ComputeProfile:
    mine = (each for each in instance.profile.compute if each.number == profile_id)
    return handles.first(mine, Code.INVALID_ARGUMENT)


def _compute_profile_info(node: Node, _process: str, handle: int, number: int, engines: int) -> Out:
    _, instance = handles.gpu_instance_behind(node, handle)
    if number >= PROFILE_NUMBERS or engines != 0:
        raise handles.RefusedError(Code.INVALID_ARGUMENT)
    mine = (each for each in instance.profile.compute if each.number == number)
    profile = handles.first(mine, Code.NOT_SUPPORTED)
    return [
        {
            "id": profile.number,
            "sliceCount": profile.slices,
            "instanceCount": len(profile.starts),
            "multiprocessorCount": multiprocessors(instance.profile, profile),
            **shared_engines(instance.profile),
            "name": f"MIG {_name(instance, profile)}",
        }
    ]


def _compute_placements(node: Node, _process: str, handle: int, profile_id: int) -> Out:
    _, instance = handles.gpu_instance_behind(node, handle)
    profile = _compute_profile(instance, profile_id)
    return [[{"start": start, "size": profile.slices} for start in profile.starts]]


def _compute_capacity(node: Node, _process: str, handle: int, profile_id: int) -> Out:
    _, instance = handles.gpu_instance_behind(node, handle)
    return [rules.compute_room(instance, _compute_profile(instance, profile_id))]


def _create_compute(node: Node, _process: str, handle: int, profile_id: int) -> Out:
    return _create_compute_at(node, handle, profile_id, None)


def _create_compute_placed(
    node: Node, _process: str, handle: int, profile_id: int, start: int, size: int
) -> Out:
    _, instance = handles.gpu_instance_behind(node, handle)
    if size != _compute_profile(instance, profile_id).slices:
        raise handles.RefusedError(Code.INVALID_ARGUMENT)
    return _create_compute_at(node, handle, profile_id, start)


def _create_compute_at(node: Node, handle: int, profile_id: int, start: int | None) -> Out:
    gpu, instance = handles.gpu_instance_behind(node, handle)
    profile = _compute_profile(instance, profile_id)
    compute = lifecycle.create_compute(node, gpu, instance, profile, start)
    return [handles.COMPUTE_INSTANCE | compute.serial]


def _destroy_compute(node: Node, _process: str, handle: int) -> Out:
    gpu, (instance, compute) = handles.compute_instance_behind(node, handle)
    lifecycle.destroy_compute(node, gpu, instance, compute)
    return []


def _compute_instances(node: Node, _process: str, handle: int, profile_id: int) -> Out:
    _, instance = handles.gpu_instance_behind(node, handle)
    profile = _compute_profile(instance, profile_id)
    mine = [each.serial for each in instance.compute if each.profile == profile]
    return [[handles.COMPUTE_INSTANCE | serial for serial in mine]]


def _compute_instance_by_id(node: Node, _process: str, handle: int, number: int) -> Out:
    _, instance = handles.gpu_instance_behind(node, handle)
    found = (each.serial for each in instance.compute if each.number == number)
    return [handles.COMPUTE_INSTANCE | handles.first(found, Code.NOT_FOUND)]


def _compute_instance_info(node: Node, _process: str, handle: int) -> Out:
    gpu, (instance, compute) = handles.compute_instance_behind(node, handle)
    return [
        {
            "device": handles.GPU | gpu.index,
            "gpuInstance": handles.GPU_INSTANCE | instance.serial,
            "id": compute.number,
            "profileId": compute.profile.number,
            "placement": {"start": compute.start, "size": compute.profile.slices},
        }
    ]


READING: Mapping[str, Callable[..., Out]] = {
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV": _compute_profile_info,
    "nvmlGpuInstanceGetComputeInstancePossiblePlacements": _compute_placements,
    "nvmlGpuInstanceGetComputeInstanceRemainingCapacity": _compute_capacity,
    "nvmlGpuInstanceGetComputeInstances": _compute_instances,
    "nvmlGpuInstanceGetComputeInstanceById": _compute_instance_by_id,
    "nvmlComputeInstanceGetInfo_v2": _compute_instance_info,
}
WRITING: Mapping[str, Callable[..., Out]] = {
    "nvmlGpuInstanceCreateComputeInstance": _create_compute,
    "nvmlGpuInstanceCreateComputeInstanceWithPlacement": _create_compute_placed,
    "nvmlComputeInstanceDestroy": _destroy_compute,
}
