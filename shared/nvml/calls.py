"""Blocking calls in a thread that may hang: what is called, waits; what hangs, is left behind.

`Nvml` makes every call through a `Caller`. A call that has not returned by its deadline marks
its GPU silent: the thread is abandoned to it, the next call starts another one, and the GPU is
not called again until the abandoned thread returns. So there are never more threads than one and
one a GPU. A call about the whole node that hangs stops all others: there is nobody else to ask.
"""

from __future__ import annotations

import asyncio
import functools
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from shared.nvml import errors

T = TypeVar("T")
NODE = None  # the key of a call about no GPU in particular


class Caller:
    """Makes calls one after another, each within the deadline.

    `returned` is told the GPU whose call came back after its deadline.
    """

    def __init__(self, deadline_s: float, returned: Callable[[int | None], None]) -> None:
        self._deadline_s = deadline_s
        self._returned = returned
        self._turn = asyncio.Lock()
        self._thread: _Thread | None = None
        self._hanging: dict[int | None, asyncio.Future[object]] = {}
        self._overdue_s: dict[int | None, float] = {}

    @property
    def silent(self) -> tuple[int | None, ...]:
        """GPUs (or NODE) whose last call has not returned."""
        return tuple(self._hanging)

    async def call(
        self, gpu: int | None, work: Callable[[], T], deadline_s: float | None = None
    ) -> T:
        """Run `work`, which is about this GPU, in the thread, and return what it returns.

        It may take as long as other calls if it has no deadline of its own.

        Raises:
            errors.SilentError: it did not return in time, or an earlier call still has not.
        """
        async with self._turn:
            self._refuse_if_silent(gpu)
            within_s = self._deadline_s if deadline_s is None else deadline_s
            if self._thread is None:
                self._thread = _Thread()
            future = self._thread.submit(work)
            try:
                async with asyncio.timeout(within_s):
                    return await asyncio.shield(future)
            except TimeoutError:
                raise errors.SilentError(_sentence(gpu, within_s)) from None
            finally:
                if not future.done():
                    self._abandon(gpu, future, within_s)

    async def settle(self) -> None:
        """Give hanging calls one more deadline to return, as a call that was cancelled will.

        Raises:
            errors.StillHeldError: one of them did not.
        """
        if self._hanging:
            await asyncio.wait(self._hanging.values(), timeout=self._deadline_s)
        if self._hanging:
            places = ", ".join(_name(gpu) for gpu in self._hanging)
            raise errors.StillHeldError(
                f"NVML cannot be let go: a call on {places} has not returned;"
                " end this process to let it go"
            )

    def stop(self) -> None:
        """End the idle thread; the next call starts another one."""
        if self._thread is not None:
            self._thread.retire()
            self._thread = None

    def _refuse_if_silent(self, gpu: int | None) -> None:
        for key in (NODE, gpu):
            if key in self._hanging:
                raise errors.SilentError(_sentence(key, self._overdue_s[key]))

    def _abandon(self, gpu: int | None, future: asyncio.Future[T], deadline_s: float) -> None:
        self.stop()
        self._overdue_s[gpu] = deadline_s
        self._hanging[gpu] = future  # type: ignore[assignment]  # only its end counts from here
        future.add_done_callback(lambda done: self._come_back(gpu, done))

    def _come_back(self, gpu: int | None, future: asyncio.Future[T]) -> None:
        del self._hanging[gpu]
        if not future.cancelled():
            future.exception()  # nobody waits for it any more
        self._returned(gpu)


def _sentence(gpu: int | None, deadline_s: float) -> str:
    return (
        f"an NVML call on {_name(gpu)} has not returned within {deadline_s:g} s:"
        " it is left alone until it does"
    )


def _name(gpu: int | None) -> str:
    return "the node" if gpu is None else f"GPU {gpu}"


class _Thread:
    """A daemon thread with a queue: an exiting process does not wait for a hanging call."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="nvml-calls", daemon=True).start()

    def submit(self, work: Callable[[], T]) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._queue.put(lambda: _run_for(loop, future, work))
        return future

    def retire(self) -> None:
        self._queue.put(None)

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            job()


def _run_for(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[T], work: Callable[[], T]
) -> None:
    """Do the work in this thread and settle the future in its loop."""
    try:
        value = work()
    except Exception as error:  # whatever it is, it belongs to the one who waits
        tell(loop, functools.partial(_fail, future, error))
    else:
        tell(loop, functools.partial(_succeed, future, value))


def _succeed(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[T], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def tell(loop: asyncio.AbstractEventLoop, news: Callable[[], None]) -> None:
    """Run `news` in the loop, from any thread; a loop that has ended needs no news."""
    try:
        loop.call_soon_threadsafe(news)
    except RuntimeError:
        if not loop.is_closed():
            raise
