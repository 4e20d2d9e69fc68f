"""The loop between what NVML says and what is published, on an NVML that a test speaks for."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import pathlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from services.advertiser import loop, mps, record
from shared.bus.state import Received
from shared.contract import codec
from shared.contract.facts import Fact
from shared.contract.generation import Generation
from shared.contract.messages import Inventory
from shared.domain.gpu import Hardware, Health, HealthState
from shared.domain.health import DEFAULT_RULES, HealthRules
from shared.nvml import errors
from shared.nvml.port import GpuEvent
from shared.runtime import clock, files
from shared.telemetry import spans
from tests.support import hardware
from tests.support.eventually import eventually, steadily
from tests.support.running import running

HANGS = errors.SilentError("an NVML call on the node has not returned within 5 s")
REFUSES = errors.NvmlError("NVML answered UNKNOWN while counting the GPUs")


@dataclass
class SpokenNvml:
    """Shows these GPUs, or answers each look with `error`; what is put into `heard` happened."""

    node: Hardware
    error: errors.NvmlError | None = None
    heard: asyncio.Queue[GpuEvent] = field(default_factory=asyncio.Queue)

    async def open(self) -> None:
        """There is nothing to open."""

    async def close(self) -> None:
        """There is nothing to close."""

    async def observe(self) -> Hardware:
        if self.error is not None:
            raise self.error
        return self.node

    async def events(self) -> AsyncIterator[GpuEvent]:
        while True:
            yield await self.heard.get()

    def break_down(self, error: errors.NvmlError, xid: int) -> None:
        """Have NVML answer so from now on, after an XID of the first GPU."""
        self.error = error
        self.heard.put_nowait(GpuEvent(gpu_uuid="GPU-0", xid=xid, lost=True))


@dataclass
class Told:
    """What the loop gave the bus."""

    inventories: list[Inventory] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)

    @property
    def healths(self) -> list[list[Health]]:
        """The GPUs' health of each inventory."""
        return [[gpu.health for gpu in each.gpus] for each in self.inventories]


async def no_daemons() -> mps.Report:
    return mps.NOTHING


@pytest.fixture(autouse=True)
def messages() -> None:
    """As a service has them before its loop begins (shared.bus.connection)."""
    codec.prepare([Inventory])


@contextlib.asynccontextmanager
async def advertising(
    folder: pathlib.Path, nvml: SpokenNvml, rules: HealthRules = DEFAULT_RULES
) -> AsyncIterator[Told]:
    """Serve a node whose two GPUs are time-sliced by four."""
    told = Told()
    outlets = loop.Outlets(
        record=record.Record(
            files.Store(folder / "inventory.json", kind="inventory"),
            files.Store(folder / "copy" / "inventory.json", kind="inventory"),
            "this boot",
        ),
        mps=no_daemons,
        publish=lambda content, _: told.inventories.append(content),
        tell=lambda fact, _: told.facts.append(fact),
    )
    advertiser = loop.Loop(
        nvml,
        outlets,
        spans.Telemetry("advertiser", "node-a"),
        stamp=hardware.stamp(),
        look_period_s=0.02,
        proc=folder,
    )
    config = dataclasses.replace(hardware.time_sliced(4), health=rules)
    wanted = hardware.intent(config, Generation(1, 1))
    advertiser.on_intent(Received(wanted, "", 1))
    async with running(advertiser.run()):
        await eventually(lambda: told.inventories)
        yield told


def two_gpus() -> SpokenNvml:
    return SpokenNvml(hardware.hardware(hardware.gpu(0), hardware.gpu(1)))


async def test_where_nvml_as_a_whole_hangs_every_gpu_is_silent_and_the_xid_is_told(
    tmp_path: pathlib.Path,
) -> None:
    """In one message; the XID that came with it is the reason of its GPU alone."""
    nvml = two_gpus()
    async with advertising(tmp_path, nvml) as told:
        nvml.break_down(HANGS, 79)
        await eventually(lambda: len(told.inventories) > 1)
    first, second = told.healths[1]
    assert (first.state, first.xid) == (HealthState.SILENT, 79)
    assert first.reason == f"XID 79; {HANGS}"
    assert (second.state, second.xid, second.reason) == (HealthState.SILENT, None, str(HANGS))
    assert [share.replicas for share in told.inventories[1].shares] == [4, 4]


async def test_a_node_that_goes_on_hanging_is_told_once_and_is_served_when_it_answers(
    tmp_path: pathlib.Path,
) -> None:
    """The GPU with the XID stays withheld."""
    nvml = two_gpus()
    async with advertising(tmp_path, nvml) as told:
        nvml.break_down(HANGS, 48)
        await eventually(lambda: len(told.inventories) > 1)
        await asyncio.sleep(0.2)  # ten looks that say the same
        nvml.error = None
        await eventually(lambda: told.healths[-1][1].usable)
    states = [[each.state for each in healths] for healths in told.healths]
    healthy, sick, silent = HealthState.HEALTHY, HealthState.SICK, HealthState.SILENT
    assert states == [[healthy, healthy], [silent, silent], [sick, healthy]]


@pytest.mark.parametrize("set_by_s", [-86_400, 3600], ids=["back", "forward"])
async def test_a_clock_that_is_set_neither_shortens_nor_lengthens_a_quiet_time(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, set_by_s: int
) -> None:
    """A node may learn what time it is after its GPU fell sick; it is told once all the same."""
    real, nvml = clock.now_ns, two_gpus()
    async with advertising(tmp_path, nvml, HealthRules(recover_after_s=2)) as told:
        nvml.heard.put_nowait(GpuEvent(gpu_uuid="GPU-0", xid=94, lost=False))
        await eventually(lambda: not told.healths[-1][0].usable)
        monkeypatch.setattr(clock, "now_ns", lambda: real() + set_by_s * 10**9)
        await steadily(lambda: not told.healths[-1][0].usable, for_=1)
        await eventually(lambda: told.healths[-1][0].usable, within=10)
    assert [first.usable for first, _ in told.healths] == [True, False, True]


async def test_where_nvml_refuses_to_count_no_gpu_is_handed_out(tmp_path: pathlib.Path) -> None:
    """As with one GPU that it refuses to read."""
    nvml = two_gpus()
    async with advertising(tmp_path, nvml) as told:
        nvml.break_down(REFUSES, 79)
        await eventually(lambda: len(told.inventories) > 1)
    first, second = told.healths[1]
    assert (first.state, first.xid) == (HealthState.SICK, 79)
    assert (second.state, second.reason) == (HealthState.SICK, str(REFUSES))
