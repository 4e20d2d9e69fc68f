"""The MPS service on simulated GPUs: real files, real processes, a real (simulated) driver."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import pathlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from services.reconfigurer.mps import app
from services.reconfigurer.mps.daemon import Daemon
from services.reconfigurer.mps.settings import MpsSettings
from shared.contract import codec, mps
from shared.contract.generation import Generation
from shared.contract.messages import Inventory
from shared.contract.mps import DaemonState, HeldForm, HeldForms, MpsDaemon, MpsState
from shared.domain.gpu import Gpu
from shared.domain.sharing import SharingConfig, Strategy
from shared.nvml import compute_mode
from shared.nvml.driver import PynvmlDriver
from shared.runtime import files
from shared.sharing import shares
from shared.simulation.gpu import boards, install, mps_control, owner, simulate
from shared.simulation.gpu.client import SocketTransport
from shared.simulation.gpu.control import Control
from shared.simulation.gpu.engine import Engine
from tests.support import hardware
from tests.support.eventually import eventually
from tests.support.running import running

BOOT = "boot-1"
EXCLUSIVE, DEFAULT = 3, 0
WITHIN = 40.0  # programs start slowly on a busy machine


def shared_by_mps(replicas: int) -> SharingConfig:
    return dataclasses.replace(hardware.time_sliced(replicas), strategy=Strategy.MPS)


class Node:
    """Two GPUs with their owner, and what advertiser and allocator would say of them."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.run_dir = folder / "run"
        self.mps_dir = folder / "mps"
        self.socket = folder / "gpu.sock"
        self.control = Control(self.socket)
        self.gpus: tuple[Gpu, ...] = ()
        (folder / "boot_id").write_text(f"{BOOT}\n", encoding="ascii")
        self._boot_id = folder / "boot_id"
        self._generation = 0

    def settings(self, **more: Any) -> MpsSettings:
        return MpsSettings(
            node_name="gpu-a",
            run_dir=self.run_dir,
            mps_dir=self.mps_dir,
            look_period_s=0.05,
            probe_period_s=0.2,
            boot_id_path=str(self._boot_id),
            **more,
        )

    def serving(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Have the service run while the block does."""
        return running(app.serve(self.settings()))

    def daemon(self, index: int = 0) -> Daemon:
        """The way to a daemon's commands."""
        return Daemon(self.gpus[index].uuid, self.mps_dir / self.gpus[index].uuid)

    async def want(self, config: SharingConfig, *recut: str) -> None:
        """What the advertiser says from now on."""
        self._generation += 1
        inventory = Inventory(
            stamp=hardware.stamp(Generation(1, self._generation)),
            driver_version="580.95.05",
            cuda_version=(13, 0),
            gpus=self.gpus,
            shares=shares.shares(self.gpus, config).shares,
            recut=recut,
        )
        await self._write("inventory.json", "inventory", inventory)

    async def hold(self, *forms: Strategy, index: int = 0) -> None:
        """What the allocator says of one GPU, and that nobody holds another."""
        held = tuple(HeldForm(gpu_uuid=self.gpus[index].uuid, strategy=each) for each in forms)
        message = HeldForms(generation=Generation(1, self._generation), forms=held)
        await self._write(mps.HELD_FILE, mps.HELD_KIND, message)

    async def told(self, index: int = 0) -> MpsDaemon | None:
        """What the service tells of a GPU's daemon."""
        saved = await files.Store(self.run_dir / mps.STATE_FILE, kind=mps.STATE_KIND).read()
        if saved is None:
            return None
        state = await asyncio.to_thread(codec.decode, MpsState, saved.payload)
        uuid = self.gpus[index].uuid
        return next((each for each in state.daemons if each.gpu_uuid == uuid), None)

    async def mode(self, index: int = 0) -> int:
        """A GPU's compute mode."""
        return int((await self.control.describe())["gpus"][index]["computeMode"])

    async def make_exclusive(self, index: int = 0) -> None:
        """Let a GPU take clients of an MPS daemon alone."""
        await asyncio.to_thread(_make_exclusive, self.gpus[index])

    async def ready(self, index: int = 0) -> MpsDaemon:
        """Wait until a GPU's daemon takes clients."""
        return await self._is(index, DaemonState.READY)

    async def down(self, index: int = 0) -> MpsDaemon:
        """Wait until it does not."""
        return await self._is(index, DaemonState.DOWN)

    async def gone(self, index: int = 0) -> None:
        """Wait until there is none, and every program may compute on the GPU."""

        async def look() -> bool:
            return await self.told(index) is None and await self.mode(index) == DEFAULT

        await eventually(look, within=WITHIN)

    async def _is(self, index: int, state: DaemonState) -> MpsDaemon:
        async def look() -> MpsDaemon | None:
            told = await self.told(index)
            return told if told is not None and told.state is state else None

        found = await eventually(look, within=WITHIN)
        assert found is not None
        return found

    async def _write(self, name: str, kind: str, message: object) -> None:
        payload = await asyncio.to_thread(codec.encode, message)
        await files.Store(self.run_dir / name, kind=kind).write(payload, BOOT)


@contextlib.asynccontextmanager
async def node(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    """A node whose driver, and whose nvidia-cuda-mps-control, are simulated."""
    made = await asyncio.to_thread(Node, folder)
    built = await asyncio.to_thread(boards.build, "gpu-a", ["a100-80gb", "t4"])
    tools = simulate.tools(made.socket)
    await asyncio.to_thread(mps_control.write, tools, made.socket)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    async with running(owner.serve(Engine("gpu-a", built), made.socket)):
        await made.control.ready()
        transport = SocketTransport(made.socket, "mps")
        install.install(transport)
        try:
            made.gpus = await asyncio.to_thread(_gpus)
            yield made
        finally:
            install.remove()
            transport.close()


def _gpus() -> tuple[Gpu, ...]:
    with _opened() as driver:
        return tuple(driver.gpu(index) for index in range(driver.count()))


def _make_exclusive(gpu: Gpu) -> None:
    with _opened():
        compute_mode.set_mode(gpu, exclusive=True)


@contextlib.contextmanager
def _opened() -> Iterator[PynvmlDriver]:
    driver = PynvmlDriver()
    driver.open()
    try:
        yield driver
    finally:
        driver.close()
