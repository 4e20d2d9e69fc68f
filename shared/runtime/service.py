"""Run one service as a process: logs, signals, a planned stop, an exit status.

SIGTERM and SIGINT cancel the service's main task; its clean-up runs, then the status is 0.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable

from shared.runtime import health, logs

log = logging.getLogger(__name__)
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run(main: Callable[[], Awaitable[None]], name: str, health_port: int = 0) -> int:
    """Run `main` until it ends or a stop is asked for; return the process's exit status.

    With a port, `shared.runtime.health` answers there meanwhile.
    """
    logs.set_up(name)
    try:
        asyncio.run(_until_stopped(main, health_port))
    except Exception:
        log.exception("%s ended by an error that nothing handled: this is a bug in slicewire", name)
        return 1
    return 0


async def _until_stopped(main: Callable[[], Awaitable[None]], health_port: int) -> None:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stopping.set)
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(_ending(main, stopping), name="service")
        living = tasks.create_task(_living(health_port), name="health")
        await stopping.wait()
        serving.cancel()
        living.cancel()


async def _ending(main: Callable[[], Awaitable[None]], stopping: asyncio.Event) -> None:
    try:
        await main()
    finally:
        stopping.set()


async def _living(port: int) -> None:
    if port:
        await health.serve(port)
