"""NVML for the loop: looks at the hardware and events, from threads that may hang.

The advertiser owns one `Nvml`. `observe` reads all GPUs in the calls thread, `events` yields what
the event thread hears. `open` and `close` may follow each other as often as the driver is needed
and must be let go (a MIG mode change wants the driver free).
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from shared.domain.gpu import Gpu, Hardware
from shared.nvml import errors, known
from shared.nvml.calls import NODE, Caller
from shared.nvml.listening import Listener
from shared.nvml.port import Driver, GpuEvent, Versions
from shared.runtime import clock

log = logging.getLogger(__name__)

T = TypeVar("T")

_NOT_OPEN = "NVML is not open in this process: open it first"
_NO_SECOND_ASKING = (
    errors.AwayError,
    errors.LostError,
    errors.ResetRequiredError,
    errors.SilentError,
)


class Nvml:
    """All GPUs of the node; a sick one never keeps the others from being served.

    Reading one GPU takes at most `deadline_s`; then it is reported silent. `listen_s` is how
    long the event thread waits at a time, and so how long `close` may take.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        deadline_s: float = 5.0,
        listen_s: float = 1.0,
        now_ns: Callable[[], int] = clock.now_ns,
    ) -> None:
        self._driver = driver
        self._deadline_s = deadline_s
        self._now_ns = now_ns
        self._calls = Caller(deadline_s, self._returned)
        self._listener = Listener(driver, self._hear, listen_s)
        self._events: asyncio.Queue[GpuEvent] = asyncio.Queue()
        self._untaken: set[GpuEvent] = set()
        self._one_at_a_time = asyncio.Lock()
        self._versions: Versions | None = None
        self._gpus: tuple[Gpu, ...] = ()
        self._watched: frozenset[int] = frozenset()
        self._said: dict[str, str] = {}

    async def open(self) -> None:
        """Start using NVML; nothing happens where it is open.

        Raises:
            errors.AwayError: there is no driver: try again later.
        """
        async with self._one_at_a_time:
            if self._versions is None:
                self._versions = await self._calls.call(NODE, self._driver.open)

    async def close(self) -> None:
        """Let NVML go; nothing happens where it is closed. What was last known is kept.

        Raises:
            errors.StillHeldError: a call has not returned; NVML stays open.
        """
        async with self._one_at_a_time:
            if self._versions is None:
                return
            await self._calls.settle()
            await self._listener.stop(self._deadline_s)
            self._versions, self._watched = None, frozenset()
            try:
                await self._calls.call(NODE, self._driver.close)
            except errors.AwayError:
                log.info("the driver had already gone when NVML was to be let go")
            finally:
                self._calls.stop()

    async def observe(self) -> Hardware:
        """Look at all GPUs; those that do not answer are reported as last known, with why.

        Raises:
            errors.AwayError: NVML is not open, or the driver went: close, then open again.
            errors.NvmlError: NVML cannot say which GPUs there are.
        """
        async with self._one_at_a_time:
            if self._versions is None:
                raise errors.AwayError(_NOT_OPEN)
            count = await self._ask_twice(NODE, self._driver.count)
            answers = [await self._look(index) for index in range(count)]
            self._gpus = known.merge(self._gpus, answers, self._now_ns())
            await self._watch(
                frozenset(index for index, gpu in enumerate(answers) if isinstance(gpu, Gpu))
            )
            return Hardware(
                driver_version=self._versions.driver,
                cuda_version=self._versions.cuda,
                gpus=self._gpus,
            )

    async def call(self, gpu: Gpu, work: Callable[[], T], deadline_s: float) -> T:
        """Make one more call about a GPU, in its turn among the others; it is never repeated.

        Raises:
            errors.AwayError: NVML is not open.
            errors.SilentError: it did not return in time; what it was to do may still happen.
            errors.NvmlError: as NVML refuses it.
        """
        async with self._one_at_a_time:
            if self._versions is None:
                raise errors.AwayError(_NOT_OPEN)
            return await self._calls.call(gpu.index, work, deadline_s)

    async def events(self) -> AsyncIterator[GpuEvent]:
        """Yield events for ever, over openings and closings.

        An event that comes again before it was taken is one event: a storm of XIDs is bounded.
        """
        while True:
            event = await self._events.get()
            self._untaken.discard(event)
            yield event

    async def _look(self, index: int) -> Gpu | errors.NvmlError:
        try:
            gpu = await self._ask_twice(index, functools.partial(self._driver.gpu, index))
        except errors.AwayError:
            raise
        except errors.NvmlError as error:
            self._say(f"GPU {index}", str(error))
            return error
        self._said.pop(f"GPU {index}", None)
        return gpu

    async def _ask_twice(self, about: int | None, question: Callable[[], T]) -> T:
        """Ask once more where the first refusal may be a passing one."""
        try:
            return await self._calls.call(about, question)
        except _NO_SECOND_ASKING:
            raise
        except errors.NvmlError:
            return await self._calls.call(about, question)

    async def _watch(self, wanted: frozenset[int]) -> None:
        """Have the event thread hear of these GPUs and no others.

        A lost GPU makes every wait fail at once, so it must not stay in the watch.
        """
        if wanted == self._watched:
            return
        try:
            watch = await self._calls.call(NODE, self._driver.watch)
        except errors.NvmlError as error:
            self._say("events", f"{error}; until then GPUs are only looked at from time to time")
            return
        added = [index for index in sorted(wanted) if await self._add(watch, index)]
        self._watched = frozenset(added)
        self._listener.follow(watch)

    async def _add(self, watch: object, index: int) -> bool:
        try:
            await self._calls.call(index, functools.partial(self._driver.add, watch, index))
        except errors.NotSupportedError as error:
            self._say(f"events of GPU {index}", f"{error}; its XIDs go unheard")
        except errors.NvmlError as error:
            self._say(f"events of GPU {index}", str(error))
            return False
        return True

    def _hear(self, event: GpuEvent) -> None:
        if event not in self._untaken:
            self._untaken.add(event)
            self._events.put_nowait(event)

    def _returned(self, gpu: int | None) -> None:
        """A silent GPU answers again: say so, that somebody looks at it."""
        uuids = [each.uuid for each in self._gpus if each.index == gpu]
        self._hear(GpuEvent(gpu_uuid=uuids[0] if uuids else "", xid=0))

    def _say(self, about: str, sentence: str) -> None:
        """Log a sentence once, however often it is found."""
        if self._said.get(about) != sentence:
            self._said[about] = sentence
            log.warning("%s", sentence)
