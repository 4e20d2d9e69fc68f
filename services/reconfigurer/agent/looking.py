"""Looks at the GPUs through NVML, and lets it go again: an idle agent keeps no driver busy.

NVML → sights for `change`. `loop` looks after each event that may have changed something.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Protocol

from services.reconfigurer.agent.sight import GpuSight
from shared.domain.gpu import Gpu, Hardware
from shared.geometry.board import Board
from shared.nvml import errors
from shared.nvml.port import GpuInstance, GpuProcess

log = logging.getLogger(__name__)


class Reading(Protocol):
    """What a look needs of NVML as a whole (shared.nvml.threads.Nvml)."""

    async def open(self) -> None:
        """Start using NVML; AwayError while there is no driver."""

    async def close(self) -> None:
        """Let NVML go."""

    async def observe(self) -> Hardware:
        """One look at every GPU."""


class Details(Protocol):
    """What a look needs of one GPU (shared.nvml.changes.Changes)."""

    async def board(self, gpu: Gpu) -> Board:
        """What it can be cut into."""

    async def instances(self, gpu: Gpu) -> tuple[GpuInstance, ...]:
        """Its instances."""

    async def processes(self, gpu: Gpu) -> tuple[GpuProcess, ...]:
        """What computes on it."""


class Eye:
    """One node's GPUs. Of a GPU that does not answer it remembers what was last seen."""

    def __init__(self, nvml: Reading, details: Details) -> None:
        self._nvml = nvml
        self._details = details
        self._boards: dict[str, Board | None] = {}
        self._last: dict[str, GpuSight] = {}

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Have NVML open for the block.

        Raises:
            AwayError: there is no driver.
        """
        await self.reopen()
        try:
            yield
        finally:
            await self.let_go()

    async def reopen(self) -> None:
        """Open NVML again within such a block, after it was let go for a reset.

        Raises:
            AwayError: there is no driver.
        """
        await self._nvml.open()

    async def let_go(self) -> None:
        """Close NVML, if it lets itself be closed."""
        try:
            await self._nvml.close()
        except errors.NvmlError as error:
            log.warning("NVML stays open: %s", error)

    async def look(self) -> tuple[GpuSight, ...] | None:
        """See all GPUs; None while NVML is away."""
        try:
            async with self.open():
                return await self.see()
        except errors.NvmlError as error:
            log.warning("the GPUs cannot be seen: %s", error)
            return None

    async def see(self) -> tuple[GpuSight, ...]:
        """See all GPUs while NVML is open.

        Raises:
            NvmlError: NVML cannot say which GPUs there are.
        """
        hardware = await self._nvml.observe()
        seen = tuple([await self._sight(gpu) for gpu in hardware.gpus])
        self._last = {each.uuid: each for each in seen}
        return seen

    async def see_one(self, uuid: str) -> GpuSight | None:
        """See one GPU while NVML is open; None where NVML does not list it.

        Raises:
            NvmlError: NVML cannot say which GPUs there are.
        """
        for gpu in (await self._nvml.observe()).gpus:
            if gpu.uuid == uuid:
                self._last[uuid] = await self._sight(gpu)
                return self._last[uuid]
        return None

    async def _sight(self, gpu: Gpu) -> GpuSight:
        if not gpu.health.usable:
            return self._remembered(gpu, gpu.health.reason)
        if gpu.mig_mode is None:
            return GpuSight(gpu=gpu, board=None)
        try:
            return GpuSight(
                gpu=gpu,
                board=await self._board(gpu),
                instances=await self._details.instances(gpu),
                processes=await self._details.processes(gpu),
            )
        except errors.AwayError:
            raise
        except errors.NvmlError as error:
            return self._remembered(gpu, str(error))

    async def _board(self, gpu: Gpu) -> Board | None:
        if gpu.uuid not in self._boards:
            try:
                self._boards[gpu.uuid] = await self._details.board(gpu)
            except errors.NotSupportedError:
                self._boards[gpu.uuid] = None
        return self._boards[gpu.uuid]

    def _remembered(self, gpu: Gpu, trouble: str) -> GpuSight:
        last = self._last.get(gpu.uuid)
        instances = last.instances if last else ()
        board = self._boards.get(gpu.uuid)
        return GpuSight(gpu=gpu, board=board, instances=instances, trouble=trouble)
