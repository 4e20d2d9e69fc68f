"""What comes in → a view, a view → a decision, a decision → disk, bus and hardware. `app` composes.

One thing after another: a decision is remembered before it is published and published before it
is acted on, so a process that starts at any point decides the same and goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from services.reconfigurer.agent import change, cutting, tracing
from services.reconfigurer.agent import sight as sights
from services.reconfigurer.agent.executor import Note
from services.reconfigurer.agent.memory import Memory
from services.reconfigurer.agent.plan import GpuPlan
from services.reconfigurer.agent.sight import GpuSight
from services.reconfigurer.agent.view import Act, Apply, Decision, Limits, Outcome, View
from shared.bus.state import Received
from shared.contract.messages import (
    Cuttable,
    Hold,
    Intent,
    Inventory,
    Ledger,
    Phase,
    Progress,
    Stamp,
)
from shared.nvml.clients import Client
from shared.runtime import clock, logs
from shared.telemetry import spans

log = logging.getLogger(__name__)
LOOK_EVERY_S = 30.0  # instances changed by hand show in the inventory at once; this is for its lack
WORKING_EVERY_S = 1.0  # processes end without telling anybody
AGAIN_S = 5.0  # after a disk that refused


class Store(Protocol):
    """Where the memory is kept (journal.Journal)."""

    async def read(self) -> Memory:
        """What was known."""

    async def write(self, memory: Memory) -> None:
        """Keep a memory."""


class Hardware(Protocol):
    """What is seen (looking.Eye)."""

    async def look(self) -> tuple[GpuSight, ...] | None:
        """All GPUs; None while NVML is away."""


class Worker(Protocol):
    """What changes GPUs (executor.Executor)."""

    async def apply(self, plan: GpuPlan, traceparent: str, note: Note) -> Outcome:
        """Carry a plan out."""

    async def still_there(self, among: tuple[Client, ...], seen: tuple[GpuSight, ...]) -> bool:
        """Whether one of these clients still has one of these GPUs open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the loop works with: what keeps, sees and changes, and where decisions go."""

    store: Store
    hardware: Hardware
    worker: Worker
    hold: Callable[[Hold, str], None]
    progress: Callable[[Progress, str], None]
    reboot: Callable[[str], Awaitable[Outcome]]


class Loop:
    """One node's agent."""

    def __init__(
        self, parts: Parts, telemetry: spans.Telemetry, *, stamp: Stamp, limits: Limits
    ) -> None:
        self._parts = parts
        self._telemetry = telemetry
        self._stamp = stamp
        self._limits = limits
        self._memory = Memory()
        self._intent: Received[Intent] | None = None
        self._inventory: Inventory | None = None
        self._ledger: Ledger | None = None
        self._seen: tuple[GpuSight, ...] | None = None
        self._boards: tuple[Cuttable, ...] = ()  # as last seen; NVML may be away for a while
        self._look_is_due = True
        self._said: Progress | None = None
        self._hold: Hold | None = None
        self._wake = asyncio.Event()

    @property
    def said(self) -> Progress | None:
        """The newest progress that the bus was given."""
        return self._said

    def on_intent(self, received: Received[Intent]) -> None:
        """Take the newest intent."""
        self._intent = received
        self._look_soon()

    def on_inventory(self, received: Received[Inventory]) -> None:
        """Take the newest inventory; it may tell of instances that were changed by hand."""
        self._inventory = received.value
        self._look_soon()

    def on_ledger(self, received: Received[Ledger]) -> None:
        """Take the newest ledger; pods come and go, which only matters to a change in hand."""
        first = self._ledger is None
        self._ledger = received.value
        if first or self._memory.change is not None:
            self._look_soon()

    async def run(self) -> None:
        """Remember, then follow everything until cancelled."""
        self._memory = await self._parts.store.read()
        while True:
            pause = await self._round()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            self._wake.clear()

    def _look_soon(self) -> None:
        self._look_is_due = True
        self._wake.set()

    async def _round(self) -> float:
        """Decide and do; return how long nothing needs to be done after that."""
        intent = self._intent
        if intent is None:
            return LOOK_EVERY_S
        if self._look_is_due or self._memory.change is not None:
            self._look_is_due = False
            self._seen = await self._parts.hardware.look()
        decision = change.decide(await self._view(intent))
        if not await self._keep(decision.memory):
            return AGAIN_S
        self._publish(decision)
        if decision.act is not None:
            await self._do(decision.act)
            return 0.0
        return self._pause(decision)

    async def _view(self, intent: Received[Intent]) -> View:
        failure, seen = self._memory.failure, self._seen
        among = failure.clients if failure is not None else ()
        there = among and seen and await self._parts.worker.still_there(among, seen)
        return View(
            memory=self._memory,
            now_ns=clock.now_ns(),
            stamp=dataclasses.replace(self._stamp, generation=intent.value.stamp.generation),
            intent=intent.value,
            traceparent=intent.traceparent,
            inventory=self._inventory,
            ledger=self._ledger,
            seen=seen,
            clients=among if there else (),
            limits=self._limits,
        )

    async def _keep(self, memory: Memory) -> bool:
        """Write a memory down; without it nothing of what it says may be done."""
        if memory == self._memory:
            return True
        try:
            await self._parts.store.write(memory)
        except OSError as error:
            log.error("the journal cannot be written (%s): nothing is changed until it can", error)
            return False
        tracing.tell(self._telemetry, self._memory, memory)
        self._memory = memory
        return True

    def _publish(self, decision: Decision) -> None:
        traceparent = self._intent.traceparent if self._intent else ""
        hold, said = decision.hold, decision.said
        if hold is not None and hold != self._hold:
            former, self._hold = self._hold, hold
            step = self._telemetry.begin("publish hold", traceparent)
            self._parts.hold(hold, step.traceparent)
            self._telemetry.end(step, attributes={"slots": len(hold.slots)})
            _log_hold(former, hold, step.trace_id)
        if said is not None:
            self._boards = sights.boards(self._seen) if self._seen else self._boards
            said = dataclasses.replace(said, boards=self._boards)
        if said is not None and said != self._said:
            tracing.tell_refusal(self._telemetry, self._said, said, traceparent)
            self._said = said
            step = self._telemetry.begin("publish progress", traceparent)
            told = logs.about(
                generation=said.stamp.generation, reason=said.reason, trace=step.trace_id
            )
            level = logging.WARNING if said.phase is Phase.FAILED else logging.INFO
            log.log(level, "%s: %s", said.phase, said.sentence, extra=told)
            self._parts.progress(said, step.traceparent)
            self._telemetry.end(step, attributes={"phase": said.phase})

    async def _do(self, act: Act) -> None:
        in_hand = self._memory.change
        traceparent = in_hand.traceparent if in_hand else ""
        if isinstance(act, Apply):
            outcome = await self._parts.worker.apply(act.plan, traceparent, self._note)
        else:
            outcome = await self._parts.reboot(traceparent)
        if not await self._keep(cutting.after(self._memory, outcome)):
            self._memory = cutting.after(self._memory, outcome)

    async def _note(self, step: str) -> None:
        """Keep which write comes next, so that a successor can say where this process ended."""
        in_hand = self._memory.change
        if in_hand is not None:
            noted = dataclasses.replace(in_hand, step=step)
            await self._keep(dataclasses.replace(self._memory, change=noted))
            self._show(step, in_hand.traceparent)

    def _show(self, step: str, traceparent: str) -> None:
        """Let people see which write comes next; the controller reads nothing new in it."""
        if self._said is not None:
            self._said = dataclasses.replace(self._said, step=step, number=self._said.number + 1)
            self._parts.progress(self._said, traceparent)

    def _pause(self, decision: Decision) -> float:
        longest = WORKING_EVERY_S if self._memory.change is not None else LOOK_EVERY_S
        if self._memory.change is None:
            self._look_is_due = True
        if decision.wake_ns is None:
            return longest
        return min(longest, max(0.05, (decision.wake_ns - clock.now_ns()) / 1e9))


def _log_hold(former: Hold | None, hold: Hold, trace: str) -> None:
    """A line for each hold that begins, changes or ends; one that withholds nothing is none."""
    told = logs.about(generation=hold.stamp.generation, gpus=hold.recut, trace=trace)
    if hold.recut:
        log.info("hold of %d slots: %s", len(hold.slots), hold.reason, extra=told)
    elif former is not None and former.recut:
        log.info("the hold has ended", extra=told)
