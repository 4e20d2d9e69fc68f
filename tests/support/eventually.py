"""Wait for something to become true without guessing how long it takes."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def eventually(condition: Callable[[], T | Awaitable[T]], *, within: float = 5.0) -> T:
    """Return the first true value; after `within` seconds an AssertionError with the last one."""
    loop = asyncio.get_running_loop()
    end = loop.time() + within
    while True:
        result = condition()
        value = await result if inspect.isawaitable(result) else result
        if value:
            return value  # type: ignore[return-value]  # isawaitable does not narrow the union
        if loop.time() > end:
            raise AssertionError(f"not within {within} s; last value: {value!r}")
        await asyncio.sleep(0.01)
