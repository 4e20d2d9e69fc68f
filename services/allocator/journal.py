"""Allocate calls since the last checkpoint, one line each: what an answer waits for.

A line takes a tenth of the time of a checkpoint, and no sync: the kernel keeps it when the
process dies, and after the machine dies List is asked anyway. `checkpoint` numbers the lines, and
empties the file when it has written all of them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pathlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from shared.contract import codec

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One Allocate call; `number` grows by one with each."""

    number: int
    resource: str
    slots: tuple[str, ...]
    at_ns: int
    trace: str


class Journal:
    """One file of lines."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._file: int | None = None
        self._turn = asyncio.Lock()  # a line written while the file is emptied would be lost

    async def append(self, entry: Entry) -> None:
        """Add a line; after the return it survives a crash of this process.

        It begins anew whatever a crash or a full disk has left before it: a piece of a line costs
        nothing but itself.

        Raises:
            OSError: the folder cannot be made, or the disk is full.
        """
        line = b"\n" + codec.encode(entry) + b"\n"
        async with self._turn:
            await asyncio.to_thread(self._append, line)

    async def empty(self, if_: Callable[[], bool]) -> None:
        """Drop all lines, if that is still right when nobody is adding one.

        Raises:
            OSError: the file cannot be written.
        """
        async with self._turn:
            if if_():
                await asyncio.to_thread(self._empty)

    async def read(self) -> tuple[Entry, ...]:
        """Return the lines in their order; what a crash cut off is passed over."""
        entries = await asyncio.to_thread(lambda: tuple(_entries(self._path)))
        return tuple(sorted(entries, key=lambda entry: entry.number))

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _append(self, line: bytes) -> None:
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o600)
        left = memoryview(line)
        while left:  # a disk that is nearly full takes less than it is given
            left = left[os.write(self._file, left) :]

    def _empty(self) -> None:
        if self._file is not None:
            os.ftruncate(self._file, 0)
        elif self._path.exists():
            os.truncate(self._path, 0)


def _entries(path: pathlib.Path) -> Iterator[Entry]:
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return
    except OSError as error:
        log.warning("cannot read %s (%s): List will tell", path, error)
        return
    for line in filter(None, lines):
        try:
            yield codec.decode(Entry, line)
        except codec.UnreadableError:
            log.warning("%s has a line that cannot be read: List will tell", path)
