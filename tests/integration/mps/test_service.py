"""Daemons start, get their limits, die, come back and end, as real processes."""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
from collections.abc import AsyncIterator

import pytest

from services.reconfigurer.mps.daemon import FORMER_LOG, ControlError, Daemon
from shared.contract import mps
from shared.contract.mps import DaemonState
from shared.domain.sharing import Strategy
from shared.runtime import locks
from shared.simulation.gpu.faults import FaultError
from shared.simulation.gpu.mps_commands import FAULTY
from tests.integration.mps import rig
from tests.integration.mps.rig import DEFAULT, EXCLUSIVE, WITHIN, Node, shared_by_mps
from tests.support import hardware
from tests.support.eventually import eventually, steadily

pytestmark = pytest.mark.timeout(150)
PROBE = "get_default_active_thread_percentage"


@pytest.fixture
async def node(short: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    async with rig.node(short, monkeypatch) as made:
        yield made


async def test_each_gpu_has_a_daemon_with_equal_parts_for_its_clients(node: Node) -> None:
    """The limits are those of the replicas and of each GPU's memory; nobody else gets onto it."""
    await node.want(shared_by_mps(4))
    await node.hold()
    async with node.serving():
        told = await node.ready(0)
        await node.ready(1)
        assert (told.replicas, told.exclusive) == (4, True)
        assert told.pid
        assert await node.daemon(0).ask(PROBE) == "25.0"
        limit = "get_default_device_pinned_mem_limit 0"
        assert await node.daemon(0).ask(limit) == f"{node.gpus[0].memory_mib // 4}M"
        assert await node.daemon(1).ask(limit) == f"{node.gpus[1].memory_mib // 4}M"
        assert [await node.mode(0), await node.mode(1)] == [EXCLUSIVE, EXCLUSIVE]
    await node.gone(0)
    with pytest.raises(ControlError, match="Cannot find MPS control daemon"):
        await node.daemon(0).ask(PROBE)


async def test_another_number_of_replicas_reaches_the_servers_that_run(node: Node) -> None:
    """The daemon stays, and its clients with it."""
    await node.want(shared_by_mps(4))
    await node.hold(Strategy.MPS)
    async with node.serving():
        before = await node.ready()
        daemon = node.daemon()
        await daemon.ask("start_server -uid 1000")
        (server,) = (await daemon.ask("get_server_list")).split()
        await node.want(shared_by_mps(10))
        await node.hold(Strategy.MPS)

        async def applied() -> bool:
            told = await node.told()
            return told is not None and told.replicas == 10

        await eventually(applied, within=WITHIN)
        after = await node.ready()
        assert after.pid == before.pid
        assert await daemon.ask(f"get_active_thread_percentage {server}") == "10.0"
        memory = await daemon.ask(f"get_device_pinned_mem_limit {server} 0")
        assert memory == f"{node.gpus[0].memory_mib // 10}M"
        assert await node.mode() == EXCLUSIVE


async def test_a_daemon_that_is_killed_is_down_and_comes_back(node: Node) -> None:
    """With the same limits, in another process; the other GPU's daemon hears nothing of it."""
    await node.want(shared_by_mps(4))
    await node.hold()
    async with node.serving():
        before, other = await node.ready(0), await node.ready(1)
        os.kill(before.pid, signal.SIGKILL)
        down = await node.down()
        assert "it ended by signal 9" in down.reason
        after = await node.ready()
        assert after.pid not in (0, before.pid)
        assert (node.mps_dir / node.gpus[0].uuid / FORMER_LOG).is_dir()
        assert await node.daemon().ask(PROBE) == "25.0"
        assert await node.told(1) == other


async def test_a_daemon_that_cannot_live_is_tried_again_until_it_can(node: Node) -> None:
    """What it said last is the reason, and its GPU stays withheld."""
    await node.want(shared_by_mps(4))
    await node.hold()
    async with node.serving():
        await node.ready()
        await node.control.fault({"gpu": 0, "mps": "down"})
        down = await node.down()
        assert "with status 1" in down.reason

        async def says_why() -> bool:
            told = await node.told()
            return told is not None and "until that is healed" in told.reason

        await eventually(says_why, within=WITHIN)
        await node.control.heal({"gpu": 0, "mps": "down"})
        await node.ready()


async def test_a_daemon_that_hangs_is_ended_and_started_again(node: Node) -> None:
    """Stopped by a signal it runs and answers nobody: new clients would hang with it."""
    await node.want(shared_by_mps(4))
    await node.hold()
    async with node.serving():
        before = await node.ready()
        os.kill(before.pid, signal.SIGSTOP)
        assert "was not answered within" in (await node.down()).reason
        after = await node.ready()
        assert after.pid != before.pid


async def test_a_server_in_fault_takes_nobody_and_is_not_ended(node: Node) -> None:
    """A fatal fault of one client is every client's; when they have gone, all is well again."""
    await node.want(shared_by_mps(4))
    await node.hold()
    async with node.serving():
        before = await node.ready()
        await node.daemon().ask(f"start_server -uid {FAULTY}")
        down = await node.down()
        assert "in state FAULT" in down.reason
        assert down.pid == before.pid
        (server,) = (await node.daemon().ask("get_server_list")).split()
        await node.daemon().ask(f"shutdown_server {server}")
        assert (await node.ready()).pid == before.pid


async def test_a_daemon_ends_after_its_last_client(node: Node) -> None:
    """The text shares by time-slicing now: who began as a client ends as one."""
    await node.want(shared_by_mps(4))
    await node.hold(Strategy.MPS)
    async with node.serving():
        before = await node.ready()
        await node.want(hardware.time_sliced(4))

        async def open_to_all() -> bool:
            return await node.mode() == DEFAULT

        await eventually(open_to_all, within=WITHIN)
        await node.hold(Strategy.MPS, Strategy.TIME_SLICING)
        for _ in range(20):
            told = await node.told()
            assert told is not None
            assert (told.pid, told.state) == (before.pid, DaemonState.READY)
            await asyncio.sleep(0.02)
        await node.hold(Strategy.TIME_SLICING)
        await node.gone()


async def test_a_pod_of_the_old_form_keeps_its_gpu_beside_mps_clients(node: Node) -> None:
    """Only when it has gone is the GPU for clients of the daemon alone."""
    await node.want(shared_by_mps(4))
    await node.hold(Strategy.TIME_SLICING)
    uuid = node.gpus[0].uuid
    async with node.serving():
        assert not (await node.ready()).exclusive
        await node.control.start_process(uuid, 4711, "old")
        await node.control.end_process(4711)
        await node.hold()

        async def alone() -> bool:
            return await node.mode() == EXCLUSIVE

        await eventually(alone, within=WITHIN)
        with pytest.raises(FaultError, match="CUDA_ERROR_DEVICE_UNAVAILABLE"):
            await node.control.start_process(uuid, 4712, "stranger")


async def test_a_gpu_that_is_to_be_cut_is_free_of_its_daemon(node: Node) -> None:
    """The other GPU's clients keep theirs."""
    await node.want(shared_by_mps(4))
    await node.hold()
    async with node.serving():
        await node.ready(0)
        other = await node.ready(1)
        await node.want(shared_by_mps(4), node.gpus[0].uuid)
        await node.hold()
        await node.gone(0)
        assert await node.told(1) == other


async def test_what_a_killed_service_has_left_is_taken_over(node: Node) -> None:
    """Its daemon, whose limits nobody watches, makes room; the GPU's mode is known still."""
    await node.want(shared_by_mps(4))
    await node.hold()
    async with node.serving():
        await node.ready()
        left = pathlib.Path(node.run_dir / mps.STATE_FILE)
        state = await asyncio.to_thread(left.read_bytes)
    orphan = node.daemon()
    await orphan.start()
    await asyncio.to_thread(left.write_bytes, state)
    async with node.serving():
        await eventually(lambda: orphan.pid == 0, within=WITHIN)
        assert (await node.ready()).pid


async def test_what_a_killed_service_told_is_taken_back_at_once(node: Node) -> None:
    """Its daemons are down until they are started again, even while nobody says what is wanted."""
    await node.want(shared_by_mps(4))
    await node.hold()
    async with node.serving():
        await node.ready()
        left = pathlib.Path(node.run_dir / mps.STATE_FILE)
        state = await asyncio.to_thread(left.read_bytes)
    await asyncio.to_thread(left.write_bytes, state)
    inventory = pathlib.Path(node.run_dir / "inventory.json")
    wanted = await asyncio.to_thread(inventory.read_bytes)
    await asyncio.to_thread(inventory.unlink)
    async with node.serving():
        down = await node.down()
        assert (down.pid, down.since_ns, down.exclusive) == (0, 0, True)
        assert "begun anew" in down.reason
        await asyncio.to_thread(inventory.write_bytes, wanted)
        assert (await node.ready()).pid


async def test_the_mode_that_a_killed_service_has_left_is_undone(node: Node) -> None:
    """The text has changed meanwhile, so there is no daemon to take over."""
    await node.want(shared_by_mps(4))
    await node.hold()
    async with node.serving():
        await node.ready()
        left = pathlib.Path(node.run_dir / mps.STATE_FILE)
        state = await asyncio.to_thread(left.read_bytes)
    await asyncio.to_thread(left.write_bytes, state)
    await node.make_exclusive()
    await node.want(hardware.time_sliced(4))
    await node.hold()
    async with node.serving():
        await node.gone()


async def test_a_driver_that_sets_no_mode_is_no_reason_not_to_serve(node: Node) -> None:
    """Without the rights MPS works, only that nobody is kept off the GPU."""
    fault = {"nvml": {"call": "nvmlDeviceSetComputeMode", "error": "NO_PERMISSION", "times": "all"}}
    await node.control.fault(fault)
    await node.want(shared_by_mps(4))
    await node.hold()
    async with node.serving():
        assert not (await node.ready()).exclusive


async def test_one_service_serves_and_the_next_one_waits(node: Node) -> None:
    """Two of them would end each other's daemons."""
    await node.want(shared_by_mps(4))
    await node.hold()
    async with locks.ServingLock(node.run_dir / mps.LOCK_FILE), node.serving():
        await steadily(lambda: not (node.mps_dir / node.gpus[0].uuid).exists(), for_=0.5)


async def test_a_program_that_is_not_there_is_named(short: pathlib.Path) -> None:
    """The sentence says what brings it."""
    daemon = Daemon("GPU-x", short / "GPU-x", program="no-such-mps-control")
    with pytest.raises(ControlError, match="no-such-mps-control cannot be run"):
        await daemon.start()
