"""Run something that never ends while a test looks at it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any


@contextlib.asynccontextmanager
async def running(*works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run `works` while the block runs; what one of them raises fails the test."""
    async with asyncio.TaskGroup() as tasks:
        started = [tasks.create_task(each) for each in works]
        try:
            yield
        finally:
            for task in started:
                task.cancel()
