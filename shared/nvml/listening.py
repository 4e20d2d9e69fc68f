"""The event thread: waits for NVML's events and tells them to the loop.

`Nvml` gives it the watch to follow. A new watch is followed after the old one was emptied, so no
XID is lost between them. An error of NVML is told as an event without a GPU: look at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable, Hashable

from shared.nvml import calls, errors
from shared.nvml.port import GpuEvent, Watcher

_PAUSE_S = 0.2  # after an error, so that a watch which only fails does not spin


class Listener:
    """Follows one watch at a time, in a thread of its own, and tells `hear` what it says."""

    def __init__(self, watcher: Watcher, hear: Callable[[GpuEvent], None], listen_s: float) -> None:
        self._watcher = watcher
        self._hear = hear
        self._listen_s = listen_s
        self._wanted: Hashable | None = None
        self._changed = threading.Event()
        self._ended: asyncio.Future[None] | None = None

    def follow(self, watch: Hashable) -> None:
        """Follow this watch from now on; the former one is given back."""
        self._wanted = watch
        self._changed.set()
        if self._ended is None:
            loop = asyncio.get_running_loop()
            self._ended = loop.create_future()
            threading.Thread(
                target=self._run, args=(loop, self._ended), name="nvml-events", daemon=True
            ).start()

    async def stop(self, deadline_s: float) -> None:
        """Give the watch back and end the thread.

        Raises:
            errors.StillHeldError: NVML does not return from waiting.
        """
        if self._ended is None:
            return
        self._wanted = None
        self._changed.set()
        await asyncio.wait((self._ended,), timeout=self._listen_s + deadline_s)
        if not self._ended.done():
            raise errors.StillHeldError(
                "NVML cannot be let go: it does not return from waiting for events;"
                " end this process to let it go"
            )
        self._ended = None

    def _run(self, loop: asyncio.AbstractEventLoop, ended: asyncio.Future[None]) -> None:
        watch = None
        while True:
            self._changed.clear()
            if self._wanted is not watch:
                self._leave(loop, watch)
                watch = self._wanted
            if watch is None:
                break
            self._listen(loop, watch, self._listen_s)
        calls.tell(loop, functools.partial(ended.set_result, None))

    def _leave(self, loop: asyncio.AbstractEventLoop, watch: Hashable | None) -> None:
        if watch is None:
            return
        while self._listen(loop, watch, 0):
            pass
        with contextlib.suppress(errors.NvmlError):  # the driver went, and the watch with it
            self._watcher.drop(watch)

    def _listen(self, loop: asyncio.AbstractEventLoop, watch: Hashable, wait_s: float) -> bool:
        """Wait once; say whether an event came."""
        try:
            event = self._watcher.wait(watch, wait_s)
        except errors.NvmlError as error:
            lost = isinstance(error, errors.LostError)
            self._tell(loop, GpuEvent(gpu_uuid="", xid=0, lost=lost))
            self._changed.wait(_PAUSE_S if wait_s else 0)
            return False
        if event is not None:
            self._tell(loop, event)
        return event is not None

    def _tell(self, loop: asyncio.AbstractEventLoop, event: GpuEvent) -> None:
        calls.tell(loop, functools.partial(self._hear, event))
