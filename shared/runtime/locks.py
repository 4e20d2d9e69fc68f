"""Who serves: an flock on one file. A second process loads, waits, and takes over when it falls.

The kernel drops the lock when its holder dies, so a crash never blocks the successor. Who waits
holds a second lock meanwhile, so that who serves can tell whether anybody does.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import pathlib
from types import TracebackType

from shared.runtime import clock

log = logging.getLogger(__name__)
POLL_S = 0.05  # flock has no asynchronous wait; a look costs one system call


class LockError(Exception):
    """The lock's file cannot be made; the text names it, with the system's reason."""


class ServingLock:
    """`async with ServingLock(path):` holds the lock; entering waits until it is free."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._file: int | None = None

    async def acquire(self) -> None:
        """Wait until this process holds the lock. Cancelling the wait leaves nothing open.

        Raises:
            LockError: the folder cannot be made or written in.
        """
        file = await asyncio.to_thread(_open, self._path)
        try:
            if not _try_lock(file):
                log.info("another process serves: this one waits for %s", self._path)
                await self._wait(file)
        except BaseException:
            os.close(file)
            raise
        self._file = file
        log.info("this process serves from now on: %s is its lock", self._path)

    async def _wait(self, file: int) -> None:
        """Wait as the one who is next; others wait for that."""
        following = await asyncio.to_thread(_open, self._next)
        try:
            while not _try_lock(following):
                await clock.sleep(POLL_S)
            while not _try_lock(file):
                await clock.sleep(POLL_S)
        finally:
            os.close(following)

    @property
    def _next(self) -> pathlib.Path:
        return self._path.with_name(f"{self._path.name}.next")

    async def is_awaited(self) -> bool:
        """Whether another process waits for the lock."""
        return await asyncio.to_thread(held, self._next)

    def release(self) -> None:
        """Let the successor serve; releasing twice is harmless."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    @property
    def held(self) -> bool:
        """Whether this process serves."""
        return self._file is not None

    async def __aenter__(self) -> ServingLock:
        await self.acquire()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def held(path: pathlib.Path) -> bool:
    """Whether some process serves behind this lock now; it is disturbed for no more than a glance.

    Blocks for two system calls, so it runs in a thread.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def _open(path: pathlib.Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LockError(f"{path} ({error.strerror})") from error


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
