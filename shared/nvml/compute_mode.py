"""Compute modes of GPUs: whether one takes every program, or clients of its MPS daemon alone.

The MPS service owns a `ComputeModes`. It has NVML open for each call only, so that it never keeps
a driver busy that somebody wants to reset.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any, Protocol

import pynvml

from shared.domain.gpu import Gpu
from shared.nvml.driver import asking, handle_of
from shared.nvml.threads import Nvml

nvml: Any = pynvml  # nvidia-ml-py carries no types
DEADLINE_S = 10.0


class ComputeModes:
    """Sets modes through an `Nvml` that nobody else uses, one call at a time."""

    def __init__(self, nvml_threads: Nvml) -> None:
        self._nvml = nvml_threads
        self._turn = asyncio.Lock()

    async def set(self, gpu: Gpu, *, exclusive: bool) -> None:
        """Let a GPU take one process (EXCLUSIVE_PROCESS, which an MPS server is), or every one.

        Raises:
            errors.NvmlError: without the rights, or as NVML refuses it.
        """
        async with self._turn:
            await self._nvml.open()
            try:
                work = functools.partial(set_mode, gpu, exclusive=exclusive)
                await self._nvml.call(gpu, work, DEADLINE_S)
            finally:
                await self._nvml.close()


class Modes(Protocol):
    """What sets compute modes."""

    async def set(self, gpu: Gpu, *, exclusive: bool) -> None:
        """Set one GPU's."""


def set_mode(gpu: Gpu, *, exclusive: bool) -> None:
    """Set the mode through an open NVML; blocks."""
    mode = nvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS if exclusive else nvml.NVML_COMPUTEMODE_DEFAULT
    with asking(f"setting the compute mode of GPU {gpu.index}"):
        nvml.nvmlDeviceSetComputeMode(handle_of(gpu), mode)
