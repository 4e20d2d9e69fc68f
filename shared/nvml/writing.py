"""The writing half of the real driver: MIG modes and instances through pynvml.

Every call blocks; `changes` makes them in the thread of an open `threads.Nvml`. NVML is one
library of the process, so this half needs nothing of the reading one but that it is open.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from ctypes import byref
from typing import Any

import pynvml

from shared.domain.gpu import Gpu
from shared.geometry.board import Board, Profile
from shared.nvml import errors, instances
from shared.nvml.driver import asking, handle_of, mig_mode
from shared.nvml.port import GpuInstance, GpuProcess, ModeSet

nvml: Any = pynvml  # nvidia-ml-py carries no types


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
            profiles = self._profiles_of(gpu, handle_of(gpu))
        if not profiles:
            raise errors.NotSupportedError(f"GPU {gpu.index} ({gpu.model}) cannot do MIG")
        return Board(memory_mib=gpu.memory_mib, profiles=profiles)

    def instances(self, gpu: Gpu) -> tuple[GpuInstance, ...]:
        """Read all GPU instances; there are none while the GPU is not in MIG mode."""
        with asking(f"reading the instances of GPU {gpu.index}"):
            handle = handle_of(gpu)
            mode = mig_mode(handle)
            if mode is None or not mode.current:
                return ()
            devices = instances.devices(handle)
            found = [
                instances.as_instance(nvml.nvmlGpuInstanceGetInfo(each), profile.name, devices)
                for profile in self._profiles_of(gpu, handle)
                for each in instances.gpu_instances(handle, profile)
            ]
        return tuple(sorted(found, key=lambda instance: instance.start))

    def processes(self, gpu: Gpu) -> tuple[GpuProcess, ...]:
        """Read which processes compute on the GPU and its instances."""
        with asking(f"reading the processes of GPU {gpu.index}"):
            running = nvml.nvmlDeviceGetComputeRunningProcesses(handle_of(gpu))
        return tuple(instances.as_process(each) for each in running)

    def set_mig_mode(self, gpu: Gpu, *, on: bool) -> ModeSet:
        """Ask for a MIG mode, and read back what is in force.

        The call itself succeeds also where the mode stays pending: what came of it is a value.
        """
        with asking(f"switching MIG mode of GPU {gpu.index} {'on' if on else 'off'}"):
            handle = handle_of(gpu)
            status = nvml.nvmlDeviceSetMigMode(handle, int(on))
            mode = mig_mode(handle)
        if mode is None:
            raise errors.NotSupportedError(f"GPU {gpu.index} ({gpu.model}) cannot do MIG")
        return ModeSet(mode=mode, status=errors.code(status))

    def create_instance(self, gpu: Gpu, profile: Profile, start: int) -> GpuInstance:
        """Make a GPU instance and its compute instance; if that fails, neither is left.

        Raises:
            errors.NoRoomError: something else stands there.
        """
        placement = nvml.c_nvmlGpuInstancePlacement_t(start=start, size=profile.size)
        with asking(f"making a {profile.name} at {start} on GPU {gpu.index}"):
            handle = handle_of(gpu)
            made = nvml.nvmlDeviceCreateGpuInstanceWithPlacement(
                handle, profile.id, byref(placement)
            )
            with _undone_on_failure(made):
                compute = self._compute_profile(gpu, made, profile)
                nvml.nvmlGpuInstanceCreateComputeInstance(made, compute)
            return instances.as_instance(
                nvml.nvmlGpuInstanceGetInfo(made), profile.name, instances.devices(handle)
            )

    def destroy_instance(self, gpu: Gpu, instance: int) -> None:
        """Take a GPU instance and its compute instances away.

        Raises:
            errors.NotFoundError: it is not there.
            errors.InUseError: processes run on it; some compute instances may be gone by now.
        """
        with asking(f"destroying instance {instance} of GPU {gpu.index}"):
            handle = handle_of(gpu)
            doomed = nvml.nvmlDeviceGetGpuInstanceById(handle, instance)
            for compute in instances.computes(handle, instance):
                nvml.nvmlComputeInstanceDestroy(
                    nvml.nvmlGpuInstanceGetComputeInstanceById(doomed, compute)
                )
            nvml.nvmlGpuInstanceDestroy(doomed)

    def _profiles_of(self, gpu: Gpu, handle: Any) -> tuple[Profile, ...]:
        if gpu.uuid not in self._profiles:
            self._profiles[gpu.uuid] = tuple(instances.profiles(handle))
        return self._profiles[gpu.uuid]

    def _compute_profile(self, gpu: Gpu, instance: Any, profile: Profile) -> int:
        """Find the id of the compute instance that is as wide as its GPU instance."""
        key = (gpu.uuid, profile.id)
        if key not in self._compute_profiles:
            self._compute_profiles[key] = instances.widest_compute_profile(instance, profile.slices)
        return self._compute_profiles[key]


@contextlib.contextmanager
def _undone_on_failure(made: Any) -> Iterator[None]:
    """Leave no GPU instance behind on which nothing can run."""
    try:
        yield
    except nvml.NVMLError:
        with contextlib.suppress(nvml.NVMLError):  # the first failure is the one to tell
            nvml.nvmlGpuInstanceDestroy(made)
        raise
