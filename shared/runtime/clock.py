"""The only place that reads a clock: wall time for stamps, loop time for waiting.

Pure code gets times as arguments; loops wait through `sleep`, which a test's loop can jump.
"""

from __future__ import annotations

import asyncio
import datetime
import time


def now_ns() -> int:
    """Wall-clock time in ns since the epoch, for stamps that people and other nodes read."""
    return time.time_ns()


def loop_time() -> float:
    """The running loop's own time in seconds, for deadlines and durations."""
    return asyncio.get_running_loop().time()


async def sleep(seconds: float) -> None:
    """Wait in the running loop's time."""
    await asyncio.sleep(seconds)


def utc(ns: int) -> str:
    """RFC 3339 with microseconds and `Z`, the form Kubernetes takes for MicroTime."""
    moment = datetime.datetime.fromtimestamp(ns / 1e9, tz=datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
