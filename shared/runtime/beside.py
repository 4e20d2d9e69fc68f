"""Work that goes on while a block runs, and ends with it. The bus and the commands use it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any


@contextlib.asynccontextmanager
async def running(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Run `work` as a task of this name while the block runs, then cancel it.

    What the block raises comes out as it is; what the work raises, as a task group gives it.
    """
    failure: Exception | None = None
    async with asyncio.TaskGroup() as tasks:
        going_on = tasks.create_task(work, name=name)
        try:
            yield
        except Exception as error:  # raised below, outside of the task group
            failure = error
        finally:
            going_on.cancel()
    if failure is not None:
        raise failure
