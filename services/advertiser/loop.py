"""Intents, XID events and the timer → looks at the hardware → inventory.json and the bus.

`app` composes it; what to publish is decided in `inventory` and `health`. The file is written
before the bus is told, so the allocator learns of a sick GPU with the bus away.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import pathlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from services.advertiser import health, inventory, mps, telling
from services.advertiser.record import Record
from shared.bus import state as bus_state
from shared.contract.facts import Fact
from shared.contract.messages import Hold, Intent, Inventory, Stamp
from shared.domain.gpu import Hardware
from shared.nvml import capabilities, errors, known
from shared.nvml.port import GpuEvent
from shared.runtime import clock, logs
from shared.telemetry import catalogue, spans

log = logging.getLogger(__name__)


class Observer(Protocol):
    """What the loop needs of NVML (shared.nvml.threads.Nvml)."""

    async def open(self) -> None:
        """Start using NVML; AwayError while there is no driver."""

    async def close(self) -> None:
        """Let NVML go."""

    async def observe(self) -> Hardware:
        """One look at every GPU; AwayError when the driver went."""

    def events(self) -> AsyncIterator[GpuEvent]:
        """XID and lost-GPU events, for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    """Where the loop's results go, and where it asks for the MPS service's."""

    record: Record
    mps: Callable[[], Awaitable[mps.Report]]
    publish: Callable[[Inventory, str], None]
    tell: Callable[[Fact, str], None]


class Loop:
    """One node's advertiser."""

    def __init__(
        self,
        nvml: Observer,
        outlets: Outlets,
        telemetry: spans.Telemetry,
        *,
        stamp: Stamp,
        look_period_s: float,
        proc: pathlib.Path,
    ) -> None:
        self._nvml = nvml
        self._outlets = outlets
        self._telemetry = telemetry
        self._teller = telling.Teller(outlets.tell, telemetry.meters)
        self._stamp = stamp
        self._look_period_s = look_period_s
        self._proc = proc
        self._minors: capabilities.Minors = {}
        self._state = inventory.State()
        self._intent: bus_state.Received[Intent] | None = None
        self._hold: Hold | None = None
        self._paused: Hold | None = None  # the hold for which NVML is let go
        self._cut: bus_state.Received[Hold] | None = None  # the last by which GPUs are cut anew
        self._report = mps.NOTHING
        self._ahead_ns = 0  # of the wall clock, before the loop's own
        self._heard_ns = 0  # when an intent came that no inventory answers yet
        self._events: list[GpuEvent] = []
        self._said = ""  # the last complaint: the same one again is no news
        self._wake = asyncio.Event()

    @property
    def published(self) -> Inventory | None:
        """The newest inventory that the bus was given."""
        return self._state.published

    def on_intent(self, received: bus_state.Received[Intent]) -> None:
        """Take the newest intent; the next look applies it."""
        self._intent, self._heard_ns = received, clock.now_ns()
        self._wake.set()

    def on_hold(self, received: bus_state.Received[Hold]) -> None:
        """Take the agent's newest hold: it may ask for NVML to be let go."""
        self._hold = received.value
        if received.value.recut:
            self._cut = received
        self._wake.set()

    async def run(self) -> None:
        """Restore, then look and publish until cancelled; NVML is let go at the end."""
        self._state = await self._outlets.record.read()
        self._clock_set_by(clock.now_ns())
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._listen(), name="NVML events")
                tasks.create_task(self._outlets.record.run(), name="copy the inventory")
                tasks.create_task(self._keep_looking(), name="looks at the hardware")
        finally:
            await self._let_go()

    async def _listen(self) -> None:
        async for event in self._nvml.events():
            self._events.append(event)
            self._wake.set()

    async def _keep_looking(self) -> None:
        while True:
            self._wake.clear()
            heard_ns, self._heard_ns = self._heard_ns, 0
            self._report = await self._mps_report()
            hardware = await self._look_or_pause()
            if hardware is not None:
                self._judge(hardware)
                await self._publish(hardware, heard_ns)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._look_period_s):
                    await self._wake.wait()

    async def _look_or_pause(self) -> Hardware | None:
        """Look, unless the agent needs NVML to be let go: what is known then goes on standing."""
        hold = self._release()
        if hold is None:
            self._paused = None
            return await self._look()
        if self._paused is None and not (
            mps.gone(self._report, hold.recut) and await self._let_go()
        ):
            return await self._look()
        if self._paused is None:
            generation = hold.stamp.generation
            log.info("NVML is let go for a change", extra=logs.about(generation=generation))
        self._paused = hold
        return inventory.unseen(self._state)

    def _release(self) -> Hold | None:
        """The hold for which everybody is to let go of the driver, None while there is none."""
        return self._hold if self._hold is not None and self._hold.release_nvml else None

    async def _mps_report(self) -> mps.Report:
        intent = self._intent.value if self._intent else None
        if mps.matters(self._state.published, intent):
            return await self._outlets.mps()
        return mps.NOTHING

    async def _look(self) -> Hardware | None:
        """Look at the hardware; None where nothing can be said about it yet.

        GPUs of which NVML no longer says that they are there are none to hand out: a call about
        the whole node that hangs is often all that is heard of one that fell off the bus.
        """
        try:
            await self._nvml.open()
            hardware = await self._nvml.observe()
            if not self._minors:
                self._minors = await asyncio.to_thread(capabilities.read, self._proc)
        except errors.AwayError as error:
            self._say(f"no NVML: {error}; looking again every {self._look_period_s:g} s")
            await self._let_go()
            self._minors = {}
            return inventory.without_driver(self._state, f"no NVML: {error}")
        except errors.NvmlError as error:
            self._say(f"NVML cannot say which GPUs there are: {error}")
            return inventory.without_answer(self._state, known.verdict_of(error))
        self._said = ""
        return inventory.with_nodes(hardware, self._minors)

    async def _let_go(self) -> bool:
        """Close NVML; say whether nothing of the driver is held any more."""
        try:
            await self._nvml.close()
        except errors.NvmlError as error:
            self._say(f"NVML stays open: {error}")
            return False
        return True

    def _say(self, sentence: str) -> None:
        if sentence != self._said:
            log.warning(sentence)
        self._said = sentence

    def _judge(self, hardware: Hardware) -> None:
        """Let the intent, what was heard and what is seen make the verdicts of now."""
        events, self._events = self._events, []
        now = clock.now_ns()
        record = health.by_clock(self._state.health, self._clock_set_by(now))
        if self._intent is not None:
            wanted = self._intent.value
            record = health.under(record, wanted.sharing.health, wanted.clear_health)
        for event in events:
            if event.xid and event.gpu_uuid:
                self._telemetry.meters.count(
                    catalogue.GPU_XIDS, uuid=event.gpu_uuid, xid=str(event.xid)
                )
                record = health.after_xid(
                    record,
                    hardware,
                    gpu_uuid=event.gpu_uuid,
                    xid=event.xid,
                    instance=event.gpu_instance,
                    now=now,
                )
        if self._paused is None:  # what is known meanwhile was seen before
            record = health.after_look(record, hardware, now)
        self._state = dataclasses.replace(self._state, health=record)

    def _clock_set_by(self, now_ns: int) -> int:
        """By how much somebody has set the wall clock since the last look."""
        before, self._ahead_ns = self._ahead_ns, now_ns - int(clock.loop_time() * 1e9)
        return self._ahead_ns - before

    async def _publish(self, hardware: Hardware, heard_ns: int) -> None:
        intent = self._intent.value if self._intent else None
        hold = self._release()
        content = inventory.after_look(
            self._state,
            hardware,
            intent,
            self._stamp,
            clock.now_ns(),
            paused=self._paused,
            recut=hold.recut if hold else (),
            report=self._report,
        )
        if content is None:
            return
        cause = self._cause(content, heard_ns)
        step = self._telemetry.begin("publish inventory", cause.traceparent)
        content = dataclasses.replace(content, traceparent=step.traceparent)
        await self._outlets.record.write(content)
        self._outlets.publish(content, step.traceparent)
        self._teller.tell(self._state.published, content, step)
        self._state = dataclasses.replace(
            self._state, published=content, is_remembered=False, is_of_former_boot=False
        )
        self._telemetry.end(step)
        self._telemetry.end(
            cause,
            attributes={"gpus": len(content.gpus), "generation": str(content.stamp.generation)},
            error="; ".join(problem.sentence() for problem in content.problems),
        )

    def _cause(self, content: Inventory, heard_ns: int) -> spans.Step:
        """The step that explains a new inventory: an intent applied, or hardware that changed.

        Where the agent cut a GPU anew, that belongs to its change.
        """
        former = self._state.published
        if self._intent and (former is None or former.stamp.generation != content.stamp.generation):
            return self._telemetry.begin(
                "apply sharing", self._intent.traceparent, start_ns=heard_ns or None
            )
        return self._telemetry.begin("observe hardware", self._change_of(content))

    def _change_of(self, content: Inventory) -> str:
        """The agent's change that made what this inventory shows for the first time, or empty."""
        cut, former = self._cut, self._state.published
        if cut is None or not inventory.is_recut(former, content, cut.value.recut):
            return ""
        if self._hold is not None and not self._hold.recut:
            self._cut = None  # what is cut from now on was cut by somebody else
        return cut.traceparent
