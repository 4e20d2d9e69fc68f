"""A mailbox that keeps only the newest value: what came between two looks is superseded.

State readers put, loops get; nobody waits for a slow reader and nothing piles up.
"""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

T = TypeVar("T")


class Latest(Generic[T]):
    """Latest-wins hand-over between one loop's callbacks and one reading task."""

    def __init__(self) -> None:
        self._values: list[T] = []
        self._filled = asyncio.Event()

    def put(self, value: T) -> None:
        """Replace whatever has not been taken yet."""
        self._values[:] = [value]
        self._filled.set()

    async def get(self) -> T:
        """Wait for a value that has not been taken yet, and take it."""
        await self._filled.wait()
        self._filled.clear()
        return self._values.pop()
