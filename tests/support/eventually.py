"""Wait for something to become true without guessing how long it takes."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")


@overload
async def eventually(
    condition: Callable[[], Awaitable[T]], *, within: float = 20.0, every: float = 0.01
) -> T: ...
@overload
async def eventually(
    condition: Callable[[], T], *, within: float = 20.0, every: float = 0.01
) -> T: ...
async def eventually(
    condition: Callable[[], Any], *, within: float = 20.0, every: float = 0.01
) -> Any:
    """Return the first true value; after `within` seconds an AssertionError with the last one.

    It is asked for `every` so many seconds: seldom, where the answer costs somebody time.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + within
    while True:
        result = condition()
        value = await result if inspect.isawaitable(result) else result
        if value:
            return value
        if loop.time() > end:
            raise AssertionError(f"not within {within} s; last value: {value!r}")
        await asyncio.sleep(every)


async def steadily(condition: Callable[[], bool], *, for_: float) -> None:
    """Look for `for_` seconds that something stays true; for what must not happen."""
    loop = asyncio.get_running_loop()
    end = loop.time() + for_
    while loop.time() < end:
        assert condition()
        await asyncio.sleep(0.01)
