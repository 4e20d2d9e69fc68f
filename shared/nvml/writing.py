"""The writing half of the real driver: MIG modes and instances through pynvml.

Every call blocks; `changes` makes them in the thread of an open `threads.Nvml`. NVML is one
library of the process, so this half needs nothing of the reading one but that it is open.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from ctypes import byref, c_uint
from typing import Any

import pynvml

from shared.domain.gpu import Gpu
from shared.geometry.board import Board, Profile
from shared.nvml import errors
from shared.nvml.driver import asking, mig_mode
from shared.nvml.errors import Code
from shared.nvml.port import GpuInstance, GpuProcess, ModeSet

nvml: Any = pynvml  # nvidia-ml-py carries no types

_NO_INSTANCE = 0xFFFFFFFF


class PynvmlWriter:
    """MIG of this machine's GPUs (or of the simulated C boundary, where that is installed).

    What a GPU's profiles are is read once: it changes with the driver only, and a process
    outlives no driver.
    """

    def __init__(self) -> None:
        self._profiles: dict[str, tuple[Profile, ...]] = {}  # by the GPU's UUID
        self._compute_profiles: dict[tuple[str, int], int] = {}  # by UUID and GPU instance's

    def board(self, gpu: Gpu) -> Board:
        """Read what the GPU can be cut into.

        Raises:
            errors.NotSupportedError: it cannot do MIG.
        """
        with asking(f"reading the MIG profiles of GPU {gpu.index}"):
            profiles = self._profiles_of(gpu, _handle(gpu))
        if not profiles:
            raise errors.NotSupportedError(f"GPU {gpu.index} ({gpu.model}) cannot do MIG")
        return Board(memory_mib=gpu.memory_mib, profiles=profiles)

    def instances(self, gpu: Gpu) -> tuple[GpuInstance, ...]:
        """Read all GPU instances; there are none while the GPU is not in MIG mode."""
        with asking(f"reading the instances of GPU {gpu.index}"):
            handle = _handle(gpu)
            mode = mig_mode(handle)
            if mode is None or not mode.current:
                return ()
            devices = _devices(handle)
            found = [
                _instance(nvml.nvmlGpuInstanceGetInfo(each), profile.name, devices)
                for profile in self._profiles_of(gpu, handle)
                for each in _gpu_instances(handle, profile)
            ]
        return tuple(sorted(found, key=lambda instance: instance.start))

    def processes(self, gpu: Gpu) -> tuple[GpuProcess, ...]:
        """Read which processes compute on the GPU and its instances."""
        with asking(f"reading the processes of GPU {gpu.index}"):
            running = nvml.nvmlDeviceGetComputeRunningProcesses(_handle(gpu))
        return tuple(_process(each) for each in running)

    def set_mig_mode(self, gpu: Gpu, *, on: bool) -> ModeSet:
        """Ask for a MIG mode, and read back what is in force.

        The call itself succeeds also where the mode stays pending: what came of it is a value.
        """
        with asking(f"switching MIG mode of GPU {gpu.index} {'on' if on else 'off'}"):
            handle = _handle(gpu)
            status = nvml.nvmlDeviceSetMigMode(handle, int(on))
            mode = mig_mode(handle)
        if mode is None:
            raise errors.NotSupportedError(f"GPU {gpu.index} ({gpu.model}) cannot do MIG")
        return ModeSet(mode=mode, status=Code(status))

    def create_instance(self, gpu: Gpu, profile: Profile, start: int) -> GpuInstance:
        """Make a GPU instance and its compute instance; if that fails, neither is left.

        Raises:
            errors.NoRoomError: something else stands there.
        """
        placement = nvml.c_nvmlGpuInstancePlacement_t(start=start, size=profile.size)
        with asking(f"making a {profile.name} at {start} on GPU {gpu.index}"):
            handle = _handle(gpu)
            made = nvml.nvmlDeviceCreateGpuInstanceWithPlacement(
                handle, profile.id, byref(placement)
            )
            with _undone_on_failure(made):
                compute = self._compute_profile(gpu, made, profile)
                nvml.nvmlGpuInstanceCreateComputeInstance(made, compute)
            return _instance(nvml.nvmlGpuInstanceGetInfo(made), profile.name, _devices(handle))

    def destroy_instance(self, gpu: Gpu, instance: int) -> None:
        """Take a GPU instance and its compute instances away.

        Raises:
            errors.NotFoundError: it is not there.
            errors.InUseError: processes run on it; some compute instances may be gone by now.
        """
        with asking(f"destroying instance {instance} of GPU {gpu.index}"):
            handle = _handle(gpu)
            doomed = nvml.nvmlDeviceGetGpuInstanceById(handle, instance)
            for compute in _computes(handle, instance):
                nvml.nvmlComputeInstanceDestroy(
                    nvml.nvmlGpuInstanceGetComputeInstanceById(doomed, compute)
                )
            nvml.nvmlGpuInstanceDestroy(doomed)

    def _profiles_of(self, gpu: Gpu, handle: Any) -> tuple[Profile, ...]:
        if gpu.uuid not in self._profiles:
            self._profiles[gpu.uuid] = tuple(_profiles(handle))
        return self._profiles[gpu.uuid]

    def _compute_profile(self, gpu: Gpu, instance: Any, profile: Profile) -> int:
        """Find the id of the compute instance that is as wide as its GPU instance."""
        key = (gpu.uuid, profile.id)
        if key not in self._compute_profiles:
            self._compute_profiles[key] = _widest_compute_profile(instance, profile.slices)
        return self._compute_profiles[key]


def _handle(gpu: Gpu) -> Any:
    """Find the GPU at its index, and see that it still is the one that was looked at."""
    handle = nvml.nvmlDeviceGetHandleByIndex(gpu.index)
    if str(nvml.nvmlDeviceGetUUID(handle)) != gpu.uuid:
        raise errors.NotFoundError(
            f"another GPU than {gpu.uuid} has index {gpu.index} by now: look at the GPUs again"
        )
    return handle


@contextlib.contextmanager
def _undone_on_failure(made: Any) -> Iterator[None]:
    """Leave no GPU instance behind on which nothing can run."""
    try:
        yield
    except nvml.NVMLError:
        with contextlib.suppress(nvml.NVMLError):  # the first failure is the one to tell
            nvml.nvmlGpuInstanceDestroy(made)
        raise


def _profiles(handle: Any) -> Iterator[Profile]:
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


def _gpu_instances(handle: Any, profile: Profile) -> list[Any]:
    found = (nvml.c_nvmlGpuInstance_t * profile.most)()
    count = c_uint()
    nvml.nvmlDeviceGetGpuInstances(handle, profile.id, found, byref(count))
    return list(found[: count.value])


def _widest_compute_profile(instance: Any, slices: int) -> int:
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


Devices = dict[tuple[int, int], tuple[str, bool]]  # (GPU, compute instance) -> (UUID, whole)


def _devices(gpu: Any) -> Devices:
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


def _computes(gpu: Any, instance: int) -> list[int]:
    return [compute for owner, compute in _devices(gpu) if owner == instance]


def _instance(info: Any, profile: str, devices: Devices) -> GpuInstance:
    mine = [device for (owner, _), device in sorted(devices.items()) if owner == info.id]
    return GpuInstance(
        id=int(info.id),
        profile=profile,
        start=int(info.placement.start),
        size=int(info.placement.size),
        devices=tuple(uuid for uuid, _ in mine),
        whole=any(whole for _, whole in mine),
    )


def _process(info: Any) -> GpuProcess:
    memory, instance = info.usedGpuMemory, int(info.gpuInstanceId)
    return GpuProcess(
        pid=int(info.pid),
        memory_mib=None if memory is None else int(memory) >> 20,
        gpu_instance=None if instance == _NO_INSTANCE else instance,
    )
