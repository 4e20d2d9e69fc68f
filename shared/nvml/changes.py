"""MIG changes for the loop: a writer's calls in the calls thread of an open `Nvml`.

The reconfigurer's agent owns one beside its `Nvml`, which reads and which lets NVML go.
"""

from __future__ import annotations

import functools

from shared.domain.gpu import Gpu
from shared.geometry.board import Board, Profile
from shared.nvml.port import GpuInstance, GpuProcess, ModeSet, Writer
from shared.nvml.threads import Nvml


class Changes:
    """Makes one call at a time, each within `deadline_s`; none is made twice.

    All raise what `threads.Nvml.call` raises. After an error, and most of all after a silence,
    only another look says what has been done.
    """

    def __init__(self, nvml: Nvml, writer: Writer, *, deadline_s: float = 60.0) -> None:
        self._nvml = nvml
        self._writer = writer
        self._deadline_s = deadline_s

    async def board(self, gpu: Gpu) -> Board:
        """Read what the GPU can be cut into, also while it is not in MIG mode."""
        work = functools.partial(self._writer.board, gpu)
        return await self._nvml.call(gpu, work, self._deadline_s)

    async def instances(self, gpu: Gpu) -> tuple[GpuInstance, ...]:
        """Read all GPU instances by their place, also those that make no whole MIG device."""
        work = functools.partial(self._writer.instances, gpu)
        return await self._nvml.call(gpu, work, self._deadline_s)

    async def processes(self, gpu: Gpu) -> tuple[GpuProcess, ...]:
        """Read which processes compute on the GPU and its instances."""
        work = functools.partial(self._writer.processes, gpu)
        return await self._nvml.call(gpu, work, self._deadline_s)

    async def set_mig_mode(self, gpu: Gpu, *, on: bool) -> ModeSet:
        """Ask for a MIG mode; look at what came of it."""
        work = functools.partial(self._writer.set_mig_mode, gpu, on=on)
        return await self._nvml.call(gpu, work, self._deadline_s)

    async def create_instance(self, gpu: Gpu, profile: Profile, start: int) -> GpuInstance:
        """Make a GPU instance there, with a compute instance as wide as it is."""
        work = functools.partial(self._writer.create_instance, gpu, profile, start)
        return await self._nvml.call(gpu, work, self._deadline_s)

    async def destroy_instance(self, gpu: Gpu, instance: int) -> None:
        """Take a GPU instance and its compute instances away."""
        work = functools.partial(self._writer.destroy_instance, gpu, instance)
        await self._nvml.call(gpu, work, self._deadline_s)
