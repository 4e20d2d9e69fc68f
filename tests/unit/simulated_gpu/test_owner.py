"""One owner, several processes: calls over the socket, events to all, owners that come and go."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shared.nvml.errors import Code
from shared.simulation.gpu import boards, owner
from shared.simulation.gpu.client import SocketTransport
from shared.simulation.gpu.control import Control
from shared.simulation.gpu.engine import Engine
from shared.simulation.gpu.faults import FaultError
from tests.support.eventually import eventually

INIT, SHUTDOWN, COUNT = "nvmlInitWithFlags", "nvmlShutdown", "nvmlDeviceGetCount_v2"
HANDLE, WAIT = "nvmlDeviceGetHandleByIndex_v2", "nvmlEventSetWait_v2"


@contextlib.asynccontextmanager
async def owned(path: Path, *gpus: str) -> AsyncIterator[Control]:
    """An owner at this path while the block runs."""
    built = await asyncio.to_thread(boards.build, "gpu-a", gpus)  # reads the catalogue's file
    async with asyncio.TaskGroup() as tasks:
        engine = Engine("gpu-a", built)
        serving = tasks.create_task(owner.serve(engine, path), name="owner")
        control = Control(path)
        await control.ready()
        yield control
        serving.cancel()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gpu.sock"


async def call(shim: SocketTransport, symbol: str, *args: int) -> tuple[int, list[Any]]:
    return await asyncio.to_thread(shim.call, symbol, list(args))


async def watching(shim: SocketTransport, index: int) -> int:
    """Open NVML and register for a GPU's XIDs; the event set's handle."""
    await call(shim, INIT, 0)
    _, (gpu,) = await call(shim, HANDLE, index)
    _, (event_set,) = await call(shim, "nvmlEventSetCreate")
    await call(shim, "nvmlDeviceRegisterEvents", gpu, 8, event_set)
    return int(event_set)


async def test_an_xid_reaches_every_process_that_waits(path: Path) -> None:
    """Both shims wait in a call when the fault comes, and both return with it."""
    async with owned(path, "t4") as control:
        shims = [SocketTransport(path), SocketTransport(path)]
        sets = [await watching(shim, 0) for shim in shims]
        async with asyncio.TaskGroup() as tasks:
            waits = [
                tasks.create_task(call(shim, WAIT, event_set, 10_000))
                for shim, event_set in zip(shims, sets, strict=True)
            ]
            await control.fault({"gpu": 0, "xid": 48})
        assert [wait.result()[1][0]["eventData"] for wait in waits] == [48, 48]
        for shim in shims:
            shim.close()


async def test_waiting_for_nothing_times_out(path: Path) -> None:
    """NVML's own answer, after the time that the caller gave."""
    async with owned(path, "t4"):
        shim = SocketTransport(path)
        event_set = await watching(shim, 0)
        assert await call(shim, WAIT, event_set, 50) == (Code.TIMEOUT, [])
        shim.close()


async def test_a_slow_call_keeps_no_other_waiting(path: Path) -> None:
    """While one call of a process hangs, its other threads are answered."""
    slow = {"nvml": {"call": "nvmlDeviceGetUUID", "delay": "never"}}
    async with owned(path, "t4") as control:
        shim = SocketTransport(path)
        await call(shim, INIT, 0)
        _, (gpu,) = await call(shim, HANDLE, 0)
        await control.fault(slow)
        async with asyncio.TaskGroup() as tasks:
            stuck = tasks.create_task(call(shim, "nvmlDeviceGetUUID", gpu))
            for _ in range(10):
                assert await call(shim, COUNT) == (Code.SUCCESS, [1])
            assert not stuck.done()
            await control.heal(slow)
        code, (uuid,) = stuck.result()
        assert (code, uuid) == (Code.SUCCESS, (await control.describe())["gpus"][0]["uuid"])
        shim.close()


async def test_openings_are_counted_by_process_and_end_with_it(path: Path) -> None:
    """A process that let go, or ended, holds nothing; another's opening is its own."""
    async with owned(path, "t4") as control:
        one, other = SocketTransport(path), SocketTransport(path)
        for shim in (one, one, other):
            await call(shim, INIT, 0)
        assert (await control.describe())["users"] == 2
        await call(one, SHUTDOWN)
        assert (await control.describe())["users"] == 2
        await call(one, SHUTDOWN)
        assert await call(one, COUNT) == (Code.UNINITIALIZED, [])
        assert (await control.describe())["users"] == 1
        other.close()

        async def forgotten() -> bool:
            return bool((await control.describe())["users"] == 0)

        await eventually(forgotten)
        one.close()


async def test_without_an_owner_the_driver_is_not_loaded(path: Path) -> None:
    """A service on the shim meets an absent owner as it would meet an absent driver."""
    shim = SocketTransport(path)
    assert await call(shim, INIT, 0) == (Code.DRIVER_NOT_LOADED, [])
    assert await call(shim, COUNT) == (Code.UNINITIALIZED, [])


async def test_a_new_owner_is_found_and_has_forgotten_everybody(path: Path) -> None:
    """As after a driver reload: uninitialised until opened again, then served."""
    shim = SocketTransport(path)
    async with owned(path, "t4"):
        await call(shim, INIT, 0)
    assert (await call(shim, COUNT))[0] == Code.UNINITIALIZED
    async with owned(path, "t4", "l4"):
        assert (await call(shim, COUNT))[0] == Code.UNINITIALIZED
        await call(shim, INIT, 0)
        assert await call(shim, COUNT) == (Code.SUCCESS, [2])
        shim.close()


async def test_a_shim_waits_for_its_owner(path: Path) -> None:
    """A service may be started first."""
    shim = SocketTransport(path)
    assert not await asyncio.to_thread(shim.wait, 0)
    async with asyncio.TaskGroup() as tasks:
        found = tasks.create_task(asyncio.to_thread(shim.wait, 5))
        async with owned(path, "t4"):
            assert await found
            shim.close()


async def test_control_says_what_the_node_holds_and_refuses_nonsense(path: Path) -> None:
    """Loss shows in the description; a wrong map comes back as its sentence."""
    async with owned(path, "a30-24gb", "t4") as control:
        await control.fault({"gpu": 1, "lost": True})
        assert [gpu["lost"] for gpu in (await control.describe())["gpus"]] == [False, True]
        with pytest.raises(FaultError, match="gpu-a has no GPU 2"):
            await control.fault({"gpu": 2, "lost": True})
        await control.heal({"gpu": 1, "lost": True})
        assert not (await control.describe())["gpus"][1]["lost"]
