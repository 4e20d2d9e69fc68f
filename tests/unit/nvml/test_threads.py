"""NVML in threads that may hang: silence, loss, events, and letting the driver go."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from shared.domain.gpu import Gpu, Hardware, HealthState
from shared.nvml import errors
from shared.nvml.driver import PynvmlDriver
from shared.nvml.port import GpuEvent
from shared.nvml.threads import Nvml
from shared.simulation.gpu.local import LocalTransport
from tests.support.eventually import eventually
from tests.support.simulated_nvml import simulated_nvml

HANGING = {"nvml": {"call": "nvmlDeviceGetMemoryInfo", "gpu": 1, "delay": "never"}}
DEADLINE_S = 0.4  # long enough for a busy machine, and waited for once in each test


OTHERS: set[threading.Thread] = set()


@pytest.fixture
def node() -> Iterator[LocalTransport]:
    OTHERS.update(threading.enumerate())
    with simulated_nvml("a100-80gb", "t4", "l4") as transport:
        yield transport


@contextlib.asynccontextmanager
async def opened() -> AsyncIterator[Nvml]:
    nvml = Nvml(PynvmlDriver(), deadline_s=DEADLINE_S, listen_s=0.05, now_ns=ticking().__next__)
    await nvml.open()
    try:
        yield nvml
    finally:
        await nvml.close()


def ticking() -> Iterator[int]:
    """Wall-clock times that are all different, so that a stamp made anew is seen."""
    yield from range(1000, 2000)


def states(hardware: Hardware) -> list[HealthState]:
    return [gpu.health.state for gpu in hardware.gpus]


def nvml_threads() -> list[str]:
    """Names of our threads; those that other tests left waiting for ever are not ours."""
    return sorted(
        thread.name
        for thread in set(threading.enumerate()) - OTHERS
        if thread.name.startswith("nvml-")
    )


HEALTHY, SICK, LOST, SILENT = (
    HealthState.HEALTHY,
    HealthState.SICK,
    HealthState.LOST,
    HealthState.SILENT,
)


async def test_a_call_that_never_returns_silences_its_gpu_alone(node: LocalTransport) -> None:
    """The others are read in the same look; the silent one is shown as it was last known."""
    async with opened() as nvml:
        before = await nvml.observe()
        node.fault(HANGING)
        after = await nvml.observe()
        assert states(after) == [HEALTHY, SILENT, HEALTHY]
        assert after.gpus[1].model == before.gpus[1].model == "Tesla T4"
        assert "GPU 1 has not returned within 0.4 s" in after.gpus[1].health.reason
        node.heal(HANGING)
        await eventually(lambda: "nvml-calls" in nvml_threads())


async def test_a_silent_gpu_is_not_called_again(node: LocalTransport) -> None:
    """However often one looks, one thread hangs, and the verdict stays the same value."""
    async with opened() as nvml:
        await nvml.observe()
        node.fault(HANGING)
        first = await nvml.observe()
        for _ in range(5):
            assert await nvml.observe() == first
        assert nvml_threads().count("nvml-calls") == 2
        node.heal(HANGING)


async def test_never_more_call_threads_than_gpus_and_one(node: LocalTransport) -> None:
    """Where every GPU hangs, each keeps one thread, and the node is still counted."""
    everywhere = {"nvml": {"call": "nvmlDeviceGetMemoryInfo", "delay": "never"}}
    async with opened() as nvml:
        await nvml.observe()
        node.fault(everywhere)
        for _ in range(3):
            assert states(await nvml.observe()) == [SILENT] * 3
        assert nvml_threads().count("nvml-calls") <= 4
        node.heal(everywhere)


async def test_the_thread_that_returns_brings_its_gpu_back(node: LocalTransport) -> None:
    """The return is an event, so that the GPU is looked at without waiting for a timer."""
    async with opened() as nvml:
        uuid = (await nvml.observe()).gpus[1].uuid
        node.fault(HANGING)
        await nvml.observe()
        node.heal(HANGING)
        assert await anext(nvml.events()) == GpuEvent(gpu_uuid=uuid, xid=0)
        assert states(await nvml.observe()) == [HEALTHY] * 3


async def test_a_call_about_the_node_that_hangs_stops_everything(node: LocalTransport) -> None:
    """Without a list of GPUs there is nothing to read: the look fails with a sentence."""
    counting = {"nvml": {"call": "nvmlDeviceGetCount_v2", "delay": "never"}}
    async with opened() as nvml:
        await nvml.observe()
        node.fault(counting)
        for _ in range(2):
            with pytest.raises(errors.SilentError, match="call on the node has not returned"):
                await nvml.observe()
        node.heal(counting)
        await anext(nvml.events())
        assert states(await nvml.observe()) == [HEALTHY] * 3


async def test_a_lost_gpu_is_told_at_once_and_shown_as_last_known(node: LocalTransport) -> None:
    """The event thread says that one is lost, the look says which; since when stays the same."""
    async with opened() as nvml:
        await nvml.observe()
        node.fault({"gpu": 2, "lost": True})
        assert (await anext(nvml.events())).lost
        lost = await nvml.observe()
        assert states(lost) == [HEALTHY, HEALTHY, LOST]
        assert lost.gpus[2].model == "NVIDIA L4"
        assert "fallen off the bus" in lost.gpus[2].health.reason
        assert await nvml.observe() == lost
        node.heal({"gpu": 2, "lost": True})
        assert states(await nvml.observe()) == [HEALTHY] * 3


async def test_xids_name_their_gpu_also_beside_a_lost_one(node: LocalTransport) -> None:
    """A lost GPU, which makes every wait fail, does not deafen the node to the others."""
    async with opened() as nvml:
        uuids = [gpu.uuid for gpu in (await nvml.observe()).gpus]
        events = nvml.events()
        node.fault({"gpu": 0, "xid": 79})
        assert await anext(events) == GpuEvent(gpu_uuid=uuids[0], xid=79, lost=True)
        await nvml.observe()
        node.fault({"gpu": 1, "xid": 48})
        heard = [await anext(events)]
        while not heard[-1].xid:
            heard.append(await anext(events))
        assert heard[-1] == GpuEvent(gpu_uuid=uuids[1], xid=48)


async def test_a_storm_of_one_xid_is_one_event_until_it_is_taken(node: LocalTransport) -> None:
    """Repeats that nobody took yet do not pile up."""
    async with opened() as nvml:
        await nvml.observe()
        for _ in range(50):
            node.fault({"gpu": 0, "xid": 31})
        node.fault({"gpu": 0, "xid": 48})
        await eventually(lambda: node.describe()["unheard"] == 0)
        await asyncio.sleep(0)  # what the event thread told is now in the queue
        events = nvml.events()
        assert [(await anext(events)).xid for _ in range(2)] == [31, 48]


async def test_a_passing_error_is_asked_again_and_a_lasting_one_is_sick(
    node: LocalTransport,
) -> None:
    """One strange answer withdraws nothing; two in a row do, with what NVML said."""
    unknown = {"call": "nvmlDeviceGetMigMode", "gpu": 0, "error": "UNKNOWN"}
    async with opened() as nvml:
        await nvml.observe()
        node.fault({"nvml": unknown})
        assert states(await nvml.observe()) == [HEALTHY] * 3
        node.fault({"nvml": {**unknown, "times": "all"}})
        hardware = await nvml.observe()
        assert states(hardware) == [SICK, HEALTHY, HEALTHY]
        assert "UNKNOWN while reading GPU 0" in hardware.gpus[0].health.reason


async def test_a_driver_that_forgot_us_is_opened_again(node: LocalTransport) -> None:
    """A reloaded driver is no fault of the GPUs: the look says that NVML must be opened."""
    async with opened() as nvml:
        before = await nvml.observe()
        node.fault({"nvml": {"call": "nvmlDeviceGetUUID", "error": "UNINITIALIZED"}})
        with pytest.raises(errors.AwayError):
            await nvml.observe()
        await nvml.close()
        await nvml.open()
        assert await nvml.observe() == before


async def test_nvml_is_let_go_and_taken_again_any_number_of_times(node: LocalTransport) -> None:
    """Closed, nothing of NVML is held; opened again, events are heard as before."""
    nvml = Nvml(PynvmlDriver(), listen_s=0.05)
    for xid in (43, 45, 48):
        await nvml.open()
        await nvml.open()
        await nvml.observe()
        node.fault({"gpu": 0, "xid": xid})
        assert (await anext(nvml.events())).xid == xid
        assert node.describe()["users"] == 1
        await nvml.close()
        await nvml.close()
        assert node.describe()["users"] == 0
        await eventually(lambda: not nvml_threads())
    with pytest.raises(errors.AwayError, match="open it first"):
        await nvml.observe()


async def test_a_hanging_call_keeps_nvml_from_being_let_go(node: LocalTransport) -> None:
    """Whoever asks to let go is told that it did not happen, and why."""
    async with opened() as nvml:
        await nvml.observe()
        node.fault(HANGING)
        await nvml.observe()
        with pytest.raises(errors.StillHeldError, match="call on GPU 1 has not returned"):
            await nvml.close()
        assert node.describe()["users"] == 1
        node.heal(HANGING)


async def test_a_gpu_that_is_no_longer_listed_is_lost(node: LocalTransport) -> None:
    """After a reload that lists fewer GPUs, the missing one is shown as lost, not forgotten."""
    async with opened() as nvml:
        await nvml.observe()
        await nvml.close()
        with simulated_nvml("a100-80gb", "t4"):
            await nvml.open()
            hardware = await nvml.observe()
            await nvml.close()
    assert states(hardware) == [HEALTHY, HEALTHY, LOST]
    assert "no longer lists this GPU, which was at index 2" in hardware.gpus[2].health.reason


async def test_a_gpu_that_never_answered_is_left_out(node: LocalTransport) -> None:
    """Nobody can name a GPU whose UUID was never read; the others are served."""
    async with opened() as nvml:
        node.fault({"gpu": 0, "lost": True})
        gpus: tuple[Gpu, ...] = (await nvml.observe()).gpus
    assert [gpu.model for gpu in gpus] == ["Tesla T4", "NVIDIA L4"]
