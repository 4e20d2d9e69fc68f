"""A slow timer → the use of all GPUs, by pod: to the bus, to the meters, and over-use as facts.

`app` composes it beside the `loop`, whose NVML it asks and which opens and lets it go. What is
said of whom is decided in `use`, `owners` and `over_use`. A GPU that does not answer is left out.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import pathlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

from services.advertiser import over_use, owners, use, use_measures
from shared.bus import state as bus_state
from shared.contract.facts import Fact
from shared.contract.messages import Inventory, Ledger, Stamp
from shared.contract.usage import Usage
from shared.domain.gpu import Gpu
from shared.nvml import errors, port
from shared.runtime import clock
from shared.telemetry import catalogue

log = logging.getLogger(__name__)

WRITTEN_S = 10.0  # the bus is told at most so often
NO_HOST_PIDS = (
    "this service sees no process but its own: run it with hostPID, in the chart"
    " `usage.byPod: true`; use is told of whole devices only"
)
Work = Callable[[], tuple[port.Sample, ...]]


class Calls(Protocol):
    """What this needs of NVML (shared.nvml.threads.Nvml)."""

    async def call(self, gpu: Gpu, work: Work, deadline_s: float) -> tuple[port.Sample, ...]:
        """Make one call about a GPU, in its turn among the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Where processes are looked up, and how long a GPU may take to answer.

    `pid` is this process's own: it is 1 where a container has pids of its own, and then NVML
    names no others.
    """

    proc: pathlib.Path
    log_links: pathlib.Path
    deadline_s: float
    pid: int


class Sampling:
    """The use of one node's GPUs, looked at every `period_s`."""

    def __init__(
        self,
        nvml: Calls,
        sampler: port.Sampler,
        node: Node,
        inventory: Callable[[], Inventory | None],
        *,
        publish: Callable[[Usage, str], None],
        tell: Callable[[Fact, str], None],
        stamp: Stamp,
        period_s: float,
    ) -> None:
        self._nvml = nvml
        self._sampler = sampler
        self._node = node
        self._inventory = inventory
        self._publish = publish
        self._tell = tell
        self._stamp = stamp
        self._period_s = period_s
        self._ledger: Ledger | None = None
        self._usage = Usage(stamp=stamp, devices=())
        self._written: tuple[float, Usage] | None = None
        self._told: set[over_use.Key] = set()  # cases of over-use
        self._unseen: frozenset[int] = frozenset()  # pids that were in no /proc the last time
        self._said: dict[str, str] = {}

    def on_ledger(self, received: bus_state.Received[Ledger]) -> None:
        """Take the allocator's newest word on who holds slots."""
        self._ledger = received.value

    def samples(self) -> Iterable[catalogue.Sample]:
        """The gauges of what was seen last; called from any thread."""
        return use_measures.samples(self._usage, self._inventory(), self._ledger)

    async def run(self) -> None:
        """Look, tell and wait, until cancelled."""
        while True:
            inventory = self._inventory()
            if inventory is not None:
                self._usage = await self._look(inventory.gpus)
                self._write()
                self._tell_over_use(inventory)
            await clock.sleep(self._period_s)

    async def _look(self, gpus: Collection[Gpu]) -> Usage:
        samples = [sample for gpu in gpus for sample in await self._sample(gpu)]
        pids = frozenset(process.pid for sample in samples for process in sample.processes)
        owned = await asyncio.to_thread(owners.read, self._node.proc, self._node.log_links, pids)
        blind = self._blind(pids, owned)
        return Usage(
            stamp=self._stamp,
            devices=use.devices(samples, None if blind else owned, self._ledger),
            blind=blind,
        )

    async def _sample(self, gpu: Gpu) -> tuple[port.Sample, ...]:
        work = functools.partial(self._sampler.sample, gpu)
        try:
            found = await self._nvml.call(gpu, work, self._node.deadline_s)
        except errors.AwayError:
            return ()  # the loop says so, and opens NVML again
        except errors.NvmlError as error:
            self._say(gpu.uuid, f"{error}; until then its use is not told")
            return ()
        self._said.pop(gpu.uuid, None)
        return found

    def _blind(self, pids: frozenset[int], owned: use.Owners) -> str:
        """Why processes cannot be told from each other; empty where they can.

        One that is missing may have ended since NVML named it, but not twice.
        """
        missing = pids - owned.keys()
        twice, self._unseen = missing & self._unseen, missing
        hidden = bool(pids) and not owned and bool(twice)
        blind = NO_HOST_PIDS if self._node.pid == 1 or hidden else ""
        if blind:
            self._say("pids", blind, logging.INFO)  # somebody may want it so
        return blind

    def _write(self) -> None:
        """Have the bus keep it, where it differs from what stands there and that is old enough.

        What an earlier process wrote stands until something has been seen.
        """
        if self._written is None and not self._usage.devices:
            return
        now = clock.loop_time()
        since, former = self._written or (float("-inf"), None)
        if now - since >= WRITTEN_S and use.differ(former, self._usage):
            self._publish(self._usage, "")
            self._written = (now, self._usage)

    def _tell_over_use(self, inventory: Inventory) -> None:
        if self._ledger is None:
            return
        self._told &= over_use.present(self._usage)
        for excess in over_use.excesses(self._usage, inventory, self._ledger):
            if excess.key not in self._told:
                self._told.add(excess.key)
                log.warning(excess.sentence)
                self._tell(over_use.fact(excess, self._stamp, clock.now_ns()), "")

    def _say(self, about: str, sentence: str, level: int = logging.WARNING) -> None:
        """Log a sentence once, however often it is found."""
        if self._said.get(about) != sentence:
            self._said[about] = sentence
            log.log(level, "%s", sentence)
