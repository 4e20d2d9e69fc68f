"""The looks at use: who is left out, what is said once, when the bus is told. On simulated NVML."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pathlib
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from services.advertiser import sampling
from shared.bus.state import Received
from shared.contract.facts import Fact
from shared.contract.messages import Inventory, Ledger, LedgerRow
from shared.contract.usage import Usage
from shared.domain.sharing import Share, Strategy
from shared.domain.slots import Holder, SlotState
from shared.nvml import driver, threads
from shared.nvml import sampling as nvml_sampling
from shared.simulation.gpu.holding import Holder as Process
from shared.simulation.gpu.local import LocalTransport
from shared.simulation.gpu.proc import ProcTree
from tests.support import hardware
from tests.support.eventually import eventually, steadily
from tests.support.running import running
from tests.support.simulated_nvml import simulated_nvml

UID = "3b0c7f43-8b5e-4b1c-9d0f-6a2f5d1e7c11"
ID = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
TRAIN = Holder("ml", "train", "main")
STAMP = hardware.stamp()
RUNNING = "nvmlDeviceGetComputeRunningProcesses_v3"


class Rig:
    """A node with two GPUs, its /proc and its links; what is told of their use."""

    def __init__(self, node: LocalTransport, folder: pathlib.Path) -> None:
        self.node = node
        self.nvml = threads.Nvml(driver.PynvmlDriver(), deadline_s=0.5, listen_s=0.05)
        self.inventory: Inventory | None = None
        self.published: list[Usage] = []
        self.facts: list[Fact] = []
        self.tree = ProcTree(folder / "proc")
        self.links = folder / "containers"
        self.uuids = [str(gpu["uuid"]) for gpu in node.describe()["gpus"]]
        self._folder = folder

    def looks(self, *, pid: int | None = None) -> sampling.Sampling:
        """Look every 50 ms, as this process or as one with this pid."""
        return sampling.Sampling(
            self.nvml,
            nvml_sampling.PynvmlSampler(),
            sampling.Node(
                proc=self._folder / "proc",
                log_links=self.links,
                deadline_s=0.5,
                pid=os.getpid() if pid is None else pid,
            ),
            lambda: self.inventory,
            publish=lambda usage, _: self.published.append(usage),
            tell=lambda fact, _: self.facts.append(fact),
            stamp=STAMP,
            period_s=0.05,
        )

    async def open(self) -> None:
        """Open NVML and see what there is, as the loop does; each GPU is shared by four."""
        await self.nvml.open()
        seen = await self.nvml.observe()
        shares = tuple(
            Share(
                uuid=gpu.uuid,
                gpu_uuid=gpu.uuid,
                gpu_index=gpu.index,
                resource="nvidia.com/gpu",
                replicas=4,
                strategy=Strategy.TIME_SLICING,
            )
            for gpu in seen.gpus
        )
        self.inventory = Inventory(
            stamp=STAMP,
            driver_version=seen.driver_version,
            cuda_version=seen.cuda_version,
            gpus=seen.gpus,
            shares=shares,
        )

    def start(self, gpu: int, pid: int, memory_mib: int, *, of_pod: bool = True) -> None:
        """Have a process compute, of the pod or of the host; blocks."""
        self.node.start_process(self.uuids[gpu], pid, "python", memory_mib)
        group = f"/kubepods/pod{UID}/{ID}" if of_pod else "/user.slice"
        self.tree.update([Process(pid, "python", (gpu,), group)])

    def link(self) -> None:
        """Have the kubelet link the pod's log; blocks."""
        self.links.mkdir()
        target = f"/var/log/pods/ml_train_{UID}/main/0.log"
        (self.links / f"train_ml_main-{ID}.log").symlink_to(target)

    def ledger(self, *holders: Holder) -> Received[Ledger]:
        """A ledger by which these hold slots of GPU 0."""
        rows = tuple(
            LedgerRow(
                slot=f"{self.uuids[0]}::{number}",
                resource="nvidia.com/gpu",
                gpu_uuid=self.uuids[0],
                state=SlotState.HELD,
                strategy=Strategy.TIME_SLICING,
                holder=holder,
            )
            for number, holder in enumerate(holders)
        )
        value = Ledger(stamp=STAMP, rows=rows, counts=())
        return Received(value=value, sequence=1, traceparent="")


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "proc").mkdir()
    return tmp_path


@pytest.fixture
def rig(folder: pathlib.Path) -> Iterator[Rig]:
    with simulated_nvml("t4", "t4") as node:
        yield Rig(node, folder)


@contextlib.asynccontextmanager
async def looking(
    rig: Rig, looks: sampling.Sampling
) -> AsyncIterator[Callable[[str], dict[str, float]]]:
    """Look while the block runs; gives the values of a series by their device."""

    def values(name: str) -> dict[str, float]:
        found = [each for each in looks.samples() if each.instrument.exposed == name]
        return {each.labels["uuid"]: each.value for each in found}

    await rig.open()
    async with running(looks.run()):
        yield values
    await rig.nvml.close()


MEMORY = "slicewire_gpu_memory_used_bytes"
BY_POD = "slicewire_pod_gpu_memory_used_bytes"
STRANGERS = "slicewire_unaccounted_gpu_processes"
MIB = 1 << 20


async def test_a_gpu_that_does_not_answer_is_left_out_and_the_other_goes_on(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so once, and is told again when it answers."""
    both, first = set(rig.uuids), {rig.uuids[0]}
    async with looking(rig, rig.looks()) as values:
        await eventually(lambda: values(MEMORY).keys() == both)
        fault = {"nvml": {"call": RUNNING, "gpu": 1, "delay": "never"}}
        await asyncio.to_thread(rig.node.fault, fault)
        await eventually(lambda: values(MEMORY).keys() == first)
        await asyncio.to_thread(rig.start, 0, 4711, 700)
        await eventually(lambda: values(MEMORY) == {rig.uuids[0]: 700 * MIB})
        await asyncio.to_thread(rig.node.heal, fault)
        await eventually(lambda: values(MEMORY).keys() == both)
    said = [each.message for each in caplog.records if each.levelno == logging.WARNING]
    assert [each for each in said if "until then its use is not told" in each] == said
    assert len(set(said)) == len(said)


async def test_a_lost_gpu_is_left_out(rig: Rig) -> None:
    """With what stood on it."""
    async with looking(rig, rig.looks()) as values:
        await eventually(lambda: len(values(MEMORY)) == 2)
        await asyncio.to_thread(rig.node.fault, {"gpu": 0, "lost": True})
        await eventually(lambda: values(MEMORY).keys() == {rig.uuids[1]})


async def test_nothing_is_told_while_nvml_is_let_go(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """And nothing is complained of: the loop knows, and opens it again."""
    async with looking(rig, rig.looks()) as values:
        await eventually(lambda: len(values(MEMORY)) == 2)
        await rig.nvml.close()
        await eventually(lambda: not values(MEMORY))
        await rig.nvml.open()
        await eventually(lambda: len(values(MEMORY)) == 2)
    assert not caplog.records


async def test_before_anything_is_seen_the_bus_is_told_nothing(rig: Rig) -> None:
    """A service that starts before its driver does not take back what was told before."""
    await rig.open()
    await rig.nvml.close()
    async with running(rig.looks().run()):
        await steadily(lambda: not rig.published, for_=0.3)
        await rig.nvml.open()
        await eventually(lambda: rig.published)
    assert len(rig.published[0].devices) == 2
    await rig.nvml.close()


async def test_a_service_with_pids_of_its_own_says_so_and_names_nobody(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """Its own pid is 1; whole devices are told all the same."""
    caplog.set_level(logging.INFO)
    await asyncio.to_thread(rig.start, 0, 4711, 700)
    async with looking(rig, rig.looks(pid=1)) as values:
        await eventually(lambda: values(MEMORY).get(rig.uuids[0]) == 700 * MIB)
        assert (values(BY_POD), values(STRANGERS)) == ({}, {})
    assert rig.published[-1].blind == sampling.NO_HOST_PIDS
    assert [each.message for each in caplog.records] == [sampling.NO_HOST_PIDS]


async def test_pids_that_stay_unseen_are_those_of_another_namespace(rig: Rig) -> None:
    """One that is missing once may have ended."""
    rig.node.start_process(rig.uuids[0], 4711, "python", 700)
    async with looking(rig, rig.looks()) as values:
        await eventually(lambda: values(MEMORY) and not values(STRANGERS))
        await asyncio.to_thread(rig.node.end_process, 4711)
        await eventually(lambda: values(STRANGERS) == dict.fromkeys(rig.uuids, 0))
    assert rig.published[0].blind == ""


async def test_a_holders_use_is_its_own_and_over_use_is_told_once(rig: Rig) -> None:
    """By the ledger; before it is known who holds slots, nobody is accused."""
    await asyncio.to_thread(rig.start, 0, 4711, 5000)
    await asyncio.to_thread(rig.link)
    looks = rig.looks()
    async with looking(rig, looks) as values:
        await eventually(lambda: values(BY_POD) == {rig.uuids[0]: 5000 * MIB})
        assert not rig.facts
        looks.on_ledger(rig.ledger(TRAIN))
        await eventually(lambda: rig.facts)
        await steadily(lambda: len(rig.facts) == 1, for_=0.5)
        assert rig.facts[0].sentence.startswith("pod ml/train takes 5000 MiB of GPU-")
        looks.on_ledger(rig.ledger(Holder("ml", "other", "main")))
        await eventually(lambda: values(STRANGERS)[rig.uuids[0]] == 1)
        assert values(BY_POD) == {}


async def test_without_links_processes_of_pods_are_nobodys(rig: Rig) -> None:
    """They are known to be of a pod, and of which uid."""
    await asyncio.to_thread(rig.start, 0, 4711, 700)
    async with looking(rig, rig.looks()) as values:
        await eventually(lambda: values(STRANGERS).get(rig.uuids[0]) == 1)
    assert rig.published[0].devices[0].unaccounted == (f"pod {UID}",)


async def test_the_bus_is_told_at_most_so_often(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has changed meanwhile is told then; what has not is never told again."""
    monkeypatch.setattr(sampling, "WRITTEN_S", 600.0)
    async with looking(rig, rig.looks()) as values:
        await eventually(lambda: len(rig.published) == 1)
        await asyncio.to_thread(rig.start, 0, 4711, 700, of_pod=False)
        await eventually(lambda: values(STRANGERS).get(rig.uuids[0]) == 1)
        await steadily(lambda: len(rig.published) == 1, for_=0.3)
        monkeypatch.setattr(sampling, "WRITTEN_S", 0.0)
        await eventually(lambda: len(rig.published) == 2)
        assert rig.published[-1].devices[0].unaccounted == ("python (4711)",)
        await steadily(lambda: len(rig.published) == 2, for_=0.3)
