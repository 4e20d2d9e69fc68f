"""Run one service as a process: logs, signals, a planned stop, an exit status.

SIGTERM and SIGINT cancel the service's main task; its clean-up runs, then the status is 0.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import signal
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from shared.runtime import health, locks, logs, settings

log = logging.getLogger(__name__)
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
Main = Callable[[], Coroutine[Any, Any, None]]


def run(
    main: Main,
    name: str,
    health_port: int = 0,
    pages: Mapping[str, health.Page] | None = None,
    *,
    node: str = "",
    log_level: str = "info",
) -> int:
    """Run `main` until it ends or a stop is asked for; return the process's exit status.

    With a port, `shared.runtime.health` answers there meanwhile, and serves `pages`.
    """
    logs.set_up(name, node, log_level)
    living = functools.partial(health.serve, health_port, pages or {})
    status = 1
    try:
        asyncio.run(_until_stopped(main, living if health_port else _nobody_asks))
        status = 0
    except* health.PortError as errors:
        log.error(
            "%s cannot answer probes on port %d (%s): free it, or set another by %s",
            *(name, health_port, errors.exceptions[0], settings.variable_of("health_port")),
        )
    except* locks.LockError as errors:
        log.error(
            "%s cannot make its lock %s: give it a folder to write in by %s",
            *(name, errors.exceptions[0], settings.variable_of("run_dir")),
        )
    except* Exception:
        log.exception("%s ended by an error that nothing handled: this is a bug in slicewire", name)
    return status


async def _until_stopped(main: Main, living: Main) -> None:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stopping.set)
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(_ending(main, stopping), name="service")
        answering = tasks.create_task(living(), name="health")
        await stopping.wait()
        serving.cancel()
        answering.cancel()


async def _ending(main: Main, stopping: asyncio.Event) -> None:
    try:
        await main()
    finally:
        stopping.set()


async def _nobody_asks() -> None:
    """Stands where there is no port to answer on."""
