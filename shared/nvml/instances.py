"""What pynvml says of profiles, GPU instances and processes → values of the port.

`writing` asks here, inside its own translation of errors; what is raised here are pynvml's.
"""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import byref, c_uint
from typing import Any

import pynvml

from shared.geometry.board import Profile
from shared.nvml.port import GpuInstance, GpuProcess

nvml: Any = pynvml  # nvidia-ml-py carries no types

_NO_INSTANCE = 0xFFFFFFFF

Devices = dict[tuple[int, int], tuple[str, bool]]  # (GPU, compute instance) -> (UUID, whole)


def profiles(handle: Any) -> Iterator[Profile]:
    """Read what the GPU can be cut into, in any mode."""
    for number in range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            info = nvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, number)
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument):
            continue  # not on this board, or newer than this driver
        starts, size = _placements(handle, info.id)
        if not starts:
            continue
        yield Profile(
            name=str(info.name).removeprefix("MIG "),
            slices=int(info.sliceCount),
            size=size,
            starts=starts,
            most=int(info.instanceCount),
            memory_mib=int(info.memorySizeMB),
            multiprocessors=int(info.multiprocessorCount),
            id=int(info.id),
        )


def _placements(handle: Any, profile_id: int) -> tuple[tuple[int, ...], int]:
    """Read where instances of a profile may start, and the slices of memory that each takes."""
    count = c_uint()
    nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile_id, None, byref(count))
    places = (nvml.c_nvmlGpuInstancePlacement_t * count.value)()
    nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile_id, places, byref(count))
    size = max((int(each.size) for each in places), default=0)
    return tuple(sorted(int(each.start) for each in places)), size


def gpu_instances(handle: Any, profile: Profile) -> list[Any]:
    """List the handles of the GPU instances of a profile."""
    found = (nvml.c_nvmlGpuInstance_t * profile.most)()
    count = c_uint()
    nvml.nvmlDeviceGetGpuInstances(handle, profile.id, found, byref(count))
    return list(found[: count.value])


def widest_compute_profile(instance: Any, slices: int) -> int:
    """Find the id of the compute instance that is as wide as its GPU instance."""
    for number in range(nvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        try:
            info = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(
                instance, number, nvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
            )
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument):
            continue
        if info.sliceCount == slices:
            return int(info.id)
    raise nvml.NVMLError(nvml.NVML_ERROR_NOT_FOUND)


def devices(gpu: Any) -> Devices:
    """Read all MIG devices, also those that are parts of their GPU instance."""
    found: Devices = {}
    for index in range(int(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu))):
        try:
            handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
        except nvml.NVMLError_NotFound:
            continue  # indexes have holes
        ids = nvml.nvmlDeviceGetGpuInstanceId(handle), nvml.nvmlDeviceGetComputeInstanceId(handle)
        attributes = nvml.nvmlDeviceGetAttributes(handle)
        whole = attributes.computeInstanceSliceCount == attributes.gpuInstanceSliceCount
        found[ids] = str(nvml.nvmlDeviceGetUUID(handle)), bool(whole)
    return found


def computes(gpu: Any, instance: int) -> list[int]:
    """List the ids of the compute instances of a GPU instance."""
    return [compute for owner, compute in devices(gpu) if owner == instance]


def as_instance(info: Any, profile: str, found: Devices) -> GpuInstance:
    """Make the value of NVML's struct and the MIG devices of the GPU."""
    mine = [device for (owner, _), device in sorted(found.items()) if owner == info.id]
    return GpuInstance(
        id=int(info.id),
        profile=profile,
        start=int(info.placement.start),
        size=int(info.placement.size),
        devices=tuple(uuid for uuid, _ in mine),
        whole=any(whole for _, whole in mine),
    )


def as_process(info: Any) -> GpuProcess:
    """Make the value of NVML's struct."""
    memory, instance = info.usedGpuMemory, int(info.gpuInstanceId)
    return GpuProcess(
        pid=int(info.pid),
        memory_mib=None if memory is None else int(memory) >> 20,
        gpu_instance=None if instance == _NO_INSTANCE else instance,
    )
