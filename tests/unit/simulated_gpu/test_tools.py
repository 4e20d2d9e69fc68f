"""What stands around the simulated driver: nvidia-smi, /proc, control, as processes see them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shared.nvml import capabilities, clients, errors, reset
from shared.nvml.errors import Code
from shared.simulation.gpu import boards, owner, proc, simulate, smi
from shared.simulation.gpu.client import SocketTransport
from shared.simulation.gpu.control import Control
from shared.simulation.gpu.engine import Engine
from shared.simulation.gpu.faults import FaultError
from tests.support.eventually import eventually

MODE, SET_MODE = "nvmlDeviceGetMigMode", "nvmlDeviceSetMigMode"
A100 = {"model": "a100-80gb", "instances": [{"profile": "1g.10gb", "start": 3}]}


class Rig:
    """A node with an owner, its control, its /proc, and the tools for services on it."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "gpu.sock"
        self.proc = folder / "proc"
        self.control = Control(self.socket)
        self.nvidia_smi = str(simulate.tools(self.socket) / "nvidia-smi")

    async def shim(self, program: str = "advertiser") -> SocketTransport:
        """A service that has opened NVML."""
        shim = SocketTransport(self.socket, program)
        await call(shim, "nvmlInitWithFlags", 0)
        return shim

    async def gpu(self, index: int = 0) -> dict[str, Any]:
        return dict((await self.control.describe())["gpus"][index])

    async def holders(self, minor: int = 0) -> list[str]:
        found = await asyncio.to_thread(clients.holding, minor, self.proc)
        return [client.name for client in found]


async def call(shim: SocketTransport, symbol: str, *args: int) -> list[Any]:
    code, out = await asyncio.to_thread(shim.call, symbol, list(args))
    assert code == Code.SUCCESS, (symbol, code)
    return out


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path)
    built = await asyncio.to_thread(boards.build, "gpu-a", [A100, "a100-80gb"])
    await asyncio.to_thread(smi.write, simulate.tools(rig.socket), rig.socket)
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(
            owner.serve(Engine("gpu-a", built), rig.socket, proc.ProcTree(rig.proc)), name="owner"
        )
        await rig.control.ready()
        yield rig
        serving.cancel()


async def test_one_gpu_is_reset_and_its_pending_mode_comes(rig: Rig) -> None:
    """By the program that the agent runs on real nodes; the other GPU keeps what it has."""
    shim = await rig.shim()
    client = {"clients": [{"gpu": 1, "name": "dcgm", "pid": 999_999}]}
    await rig.control.fault(client)
    (handle,) = await call(shim, "nvmlDeviceGetHandleByIndex_v2", 1)
    assert await call(shim, SET_MODE, handle, 1) == [Code.IN_USE]
    await call(shim, "nvmlShutdown")
    await rig.control.heal(client)
    await reset.reset((await rig.gpu(1))["uuid"], program=rig.nvidia_smi)
    first, second = await rig.gpu(0), await rig.gpu(1)
    assert (second["migMode"], second["migPending"]) == (True, True)
    assert len(first["instances"]) == 1
    shim.close()


async def test_a_gpu_in_use_is_not_reset_and_the_sentence_says_so(rig: Rig) -> None:
    """A service that still has NVML open is enough."""
    shim = await rig.shim()
    with pytest.raises(errors.InUseError, match="is in use by another client and was not reset"):
        await reset.reset((await rig.gpu())["uuid"], program=rig.nvidia_smi)
    assert len((await rig.gpu())["instances"]) == 1
    shim.close()


async def test_other_ends_of_a_reset_are_told_apart(rig: Rig, tmp_path: Path) -> None:
    """A GPU that is lost, one that is not there, a program that is missing or does not end."""
    await rig.control.fault({"gpu": 0, "lost": True})
    with pytest.raises(errors.ResetFailedError, match=r"status 15.*Unable to reset GPU"):
        await reset.reset((await rig.gpu())["uuid"], program=rig.nvidia_smi)
    with pytest.raises(errors.ResetFailedError, match="No devices were found: GPU-9"):
        await reset.reset("GPU-9", program=rig.nvidia_smi)
    with pytest.raises(errors.ResetFailedError, match=r"cannot be run \(No such file"):
        await reset.reset("GPU-9", program=str(tmp_path / "missing"))
    slow = tmp_path / "slow"
    await asyncio.to_thread(slow.write_text, "#!/bin/sh\nexec sleep 60\n")
    await asyncio.to_thread(slow.chmod, 0o755)
    with pytest.raises(errors.SilentError, match=r"did not end within 0.1 s: reboot the node"):
        await reset.reset("GPU-9", program=str(slow), within_s=0.1)


async def test_without_an_owner_nvidia_smi_says_that_no_driver_runs(tmp_path: Path) -> None:
    """As the real one does without a driver."""
    await asyncio.to_thread(smi.write, tmp_path, tmp_path / "nobody.sock")
    with pytest.raises(errors.ResetFailedError, match="couldn't communicate with the NVIDIA"):
        await reset.reset("GPU-9", program=str(tmp_path / "nvidia-smi"))


async def test_proc_shows_who_holds_a_gpu(rig: Rig) -> None:
    """NVML's users hold all, clients and processes their own, each as long as it does."""
    assert await rig.holders() == []
    shim = await rig.shim("advertiser")
    assert await rig.holders(0) == await rig.holders(1) == ["advertiser"]
    client = {"clients": [{"gpu": 1, "name": "nvidia-persistenced", "pid": 999_999}]}
    await rig.control.fault(client)
    assert await rig.holders(1) == ["advertiser", "nvidia-persistenced"]
    uuid = (await rig.gpu())["instances"][0]["uuid"]
    await rig.control.start_process(uuid, 999_998, "train", 512)
    assert await rig.holders(0) == ["advertiser", "train"]
    await call(shim, "nvmlShutdown")
    assert await rig.holders(0) == ["train"]
    await rig.control.end_process(999_998)
    assert await rig.holders(0) == []
    await rig.control.heal(client)
    assert await rig.holders(1) == []
    shim.close()


async def test_a_process_that_was_killed_holds_nothing(rig: Rig) -> None:
    """Its connections end, and with them its entry in /proc."""
    shim = await rig.shim()
    assert await rig.holders() == ["advertiser"]
    shim.close()

    async def gone() -> bool:
        return not await rig.holders()

    await eventually(gone)


async def test_clients_are_named_besides_oneself(rig: Rig) -> None:
    """With the pid that an administrator needs."""
    shim = await rig.shim("reconfigurer-agent")
    await rig.control.fault({"clients": [{"gpu": 0, "name": "dcgm", "pid": 999_999}]})
    found = await asyncio.to_thread(clients.holding, 0, rig.proc, [os.getpid()])
    assert [str(client) for client in found] == ["dcgm (999999)"]
    shim.close()


def test_clients_are_found_in_a_real_proc(tmp_path: Path) -> None:
    """This process holds what it has open, by the name of its program; GPU 1 is not GPU 10."""
    node = tmp_path / "nvidia1"
    process = tmp_path / "proc" / "17"
    (process / "fd").mkdir(parents=True)
    (process / "cmdline").write_bytes(b"/usr/bin/dcgm\0-f\0")
    (process / "fd" / "4").symlink_to("/dev/nvidia10")
    (tmp_path / "proc" / "self").mkdir()
    (tmp_path / "proc" / "18").mkdir()  # may not be looked into
    assert clients.holding(1, tmp_path / "proc") == ()
    assert clients.holding(10, tmp_path / "proc") == (clients.Client(17, "dcgm"),)
    assert clients.holding(0, tmp_path / "missing") == ()
    assert not node.exists()
    assert clients.holding(0) == (), "this machine's own /proc can be read"


async def test_the_nodes_that_guard_an_instance_are_found(rig: Rig) -> None:
    """Where a real node lists them; a node without a driver lists none."""
    device = (await rig.gpu())["instances"][0]
    ids = device["gpuInstance"], device["computeInstance"]
    minors = await asyncio.to_thread(capabilities.read, rig.proc)
    paths = [f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in device["capabilityMinors"]]
    assert list(capabilities.nodes(minors, 0, *ids)) == paths
    assert len(set(paths)) == 2
    assert await asyncio.to_thread(capabilities.read, rig.proc / "missing") == {}
    assert capabilities.nodes({}, 0, *ids) == ()


async def test_a_reboot_is_made_from_outside(rig: Rig) -> None:
    """Instances and processes are gone, NVML must be opened again."""
    shim = await rig.shim()
    await rig.control.start_process((await rig.gpu())["instances"][0]["uuid"], 999_998, "train")
    await rig.control.reboot()
    now = await rig.control.describe()
    assert (now["boots"], now["users"], now["processes"]) == (2, 0, [])
    assert (now["gpus"][0]["migMode"], now["gpus"][0]["instances"]) == (True, [])
    code, _ = await asyncio.to_thread(shim.call, "nvmlDeviceGetCount_v2", [])
    assert code == Code.UNINITIALIZED
    with pytest.raises(FaultError, match="no process 999998"):
        await rig.control.end_process(999_998)
    shim.close()


SERVICE = """
import sys
from shared.simulation.gpu import simulate

def run(argv):
    import shutil
    print(shutil.which("nvidia-smi"))
    return 0

sys.exit(simulate.main(sys.argv[1:], run))
"""


@contextlib.asynccontextmanager
async def simulated(*argv: str) -> AsyncIterator[asyncio.subprocess.Process]:
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVICE, *argv, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield running
    finally:
        if running.returncode is None:
            running.terminate()
        await running.communicate()


async def test_a_service_finds_the_stand_in_first(tmp_path: Path) -> None:
    """The owner brings it and takes it away; latencies are the owner's."""
    socket = tmp_path / "gpu.sock"
    own = ("--node", "gpu-a", "--gpus", "t4", "--latency", "nvmlDeviceGetCount_v2=1ms")
    async with simulated("--socket", str(socket), *own):
        await Control(socket).ready()
        async with simulated("--socket", str(socket), "--", "reconfigurer", "agent") as service:
            out, _ = await service.communicate()
        assert out.decode().strip() == str(simulate.tools(socket) / "nvidia-smi")
    assert not await asyncio.to_thread(simulate.tools(socket).exists)


def test_a_latency_of_no_call_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sentence names it."""
    argv = ["--socket", str(tmp_path / "s"), "--node", "gpu-a", "--gpus", "t4", "--latency", "x=1s"]
    assert simulate.main(argv, len) == 2
    assert "--latency names 'x', which is no call of NVML's" in capsys.readouterr().err
