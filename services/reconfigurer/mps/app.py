"""The MPS service's composition: the one place that says which parts work together."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator, Callable

from services.reconfigurer.mps import loop, shared_memory
from services.reconfigurer.mps.daemon import Daemon
from services.reconfigurer.mps.keeping import Keeper
from services.reconfigurer.mps.settings import MpsSettings
from services.reconfigurer.mps.wanted import Aim
from shared.contract import mps
from shared.contract.mps import MpsDaemon
from shared.nvml import compute_mode, driver, threads
from shared.runtime import boot, locks


async def serve(settings: MpsSettings) -> None:
    """Serve until cancelled. A second process waits here until the first one's lock falls."""
    modes = compute_mode.ComputeModes(threads.Nvml(driver.PynvmlDriver()))

    def keeper(aim: Aim, former: MpsDaemon | None, on_change: Callable[[], None]) -> Keeper:
        return Keeper(
            aim,
            Daemon(aim.gpu.uuid, settings.mps_dir / aim.gpu.uuid),
            modes,
            on_change,
            former=former,
            probe_period_s=settings.probe_period_s,
        )

    async with (
        locks.ServingLock(settings.run_dir / mps.LOCK_FILE),
        _shared_memory(settings.mps_dir / mps.SHM, settings.shared_memory_mib),
    ):
        boot_id = await asyncio.to_thread(boot.boot_id, settings.boot_id_path)
        await loop.Loop(
            settings.run_dir, boot_id, keeper, look_period_s=settings.look_period_s
        ).run()


@contextlib.asynccontextmanager
async def _shared_memory(folder: pathlib.Path, mib: int) -> AsyncIterator[None]:
    """Have daemons and clients meet in a tmpfs while the block runs, where one is asked for."""
    if not mib:
        yield
        return
    await asyncio.to_thread(shared_memory.mount, folder, mib)
    try:
        yield
    finally:
        await asyncio.to_thread(shared_memory.unmount, folder)
