"""The advertiser on GPUs that are cut: what it offers, and how it lets NVML go."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import pathlib
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from services.advertiser import app
from services.advertiser.settings import AdvertiserSettings
from shared.bus import connection, ensure, fleet, state
from shared.bus.login import Login
from shared.contract import table
from shared.contract.generation import Generation
from shared.contract.messages import Hold, Intent, Inventory
from shared.contract.table import Role
from shared.domain.gpu import HealthState
from shared.domain.sharing import UNSHARED, MigStrategy
from shared.nvml.driver import PynvmlDriver
from shared.nvml.writing import PynvmlWriter
from shared.simulation.broker import Broker
from shared.simulation.gpu import capabilities, catalogue
from shared.simulation.gpu.local import LocalTransport
from shared.simulation.gpu.proc import ProcTree
from shared.telemetry import context
from tests.support import hardware
from tests.support.eventually import eventually, steadily
from tests.support.running import running
from tests.support.simulated_nvml import simulated_nvml

NODE = "gpu-a.example"
FIRST = Generation(1, 1)
CHANGE = f"00-{'a' * 32}-{'b' * 16}-01"
catalogue.models()  # read from its file before a loop runs
EMPTY = {"model": "a100-40gb", "migMode": "on"}
BALANCED = {
    **EMPTY,
    "instances": [
        {"profile": name, "start": start}
        for name, start in (("1g.5gb", 0), ("1g.5gb", 1), ("2g.10gb", 2), ("3g.20gb", 4))
    ],
}


class Site:
    """The advertiser's node: hands of controller and agent on the bus, and ears."""

    def __init__(self, intents: fleet.FleetWriter[Intent], holds: state.StateWriter[Hold]) -> None:
        self._intents = intents
        self._holds = holds
        self.heard: list[Inventory] = []

    def want(self, strategy: MigStrategy) -> None:
        """Have MIG devices named in this way."""
        sharing = dataclasses.replace(UNSHARED, mig_strategy=strategy)
        self._intents.put(NODE, hardware.intent(sharing, FIRST, NODE))

    def hold(self, order: int, *, release: bool, traceparent: str = "") -> None:
        """Write the agent's hold."""
        stamp = hardware.stamp(FIRST, NODE)
        recut = tuple(gpu.uuid for gpu in self.heard[-1].gpus) if release else ()
        hold = Hold(stamp=stamp, recut=recut, release_nvml=release, order=order)
        self._holds.put(hold, traceparent)

    def offered(self) -> Counter[str]:
        """How many slots of each resource are offered."""
        found: Counter[str] = Counter()
        for share in self.heard[-1].shares if self.heard else ():
            found[share.resource] += share.replicas
        return +found


@contextlib.asynccontextmanager
async def site(folder: pathlib.Path, proc: pathlib.Path | None = None) -> AsyncIterator[Site]:
    broker = Broker(folder / "bus", [NODE])
    await broker.start()
    user, password = broker.credentials(Role.ADVERTISER, NODE)
    settings = AdvertiserSettings(
        node_name=NODE,
        run_dir=folder,
        state_dir=folder / "state",
        look_period_s=0.05,
        bus_url=broker.url,
        bus_user=user,
        bus_password_file=password,
        proc_root=proc or folder,
    )
    try:
        async with (
            connection.open_bus(
                broker.url, Login(*broker.credentials(Role.CONTROLLER)), Role.CONTROLLER
            ) as bus,
            connection.open_bus(
                broker.url, Login(*broker.credentials(Role.AGENT, NODE)), Role.AGENT, NODE
            ) as agent,
        ):
            await ensure.ensure_streams(bus)
            intents: fleet.FleetWriter[Intent] = fleet.FleetWriter(bus, table.bucket("intent"))
            holds: state.StateWriter[Hold] = state.StateWriter(agent, table.bucket("hold"), NODE)
            found = Site(intents, holds)
            ears: fleet.FleetReader[Inventory] = fleet.FleetReader(
                bus, table.bucket("inventory"), lambda _, each: found.heard.append(each.value)
            )
            async with running(intents.run(), holds.run(), ears.run(), app.serve(settings)):
                yield found
    finally:
        await broker.stop()


def cut(index: int, *places: tuple[str, int]) -> None:
    """Make instances by hand."""
    nvml, writer = PynvmlDriver(), PynvmlWriter()
    nvml.open()
    gpu = nvml.gpu(index)
    for name, start in places:
        writer.create_instance(gpu, writer.board(gpu).profile(name), start)
    nvml.close()


async def test_u113_every_instance_of_a_balanced_gpu_is_offered(tmp_path: pathlib.Path) -> None:
    """Mixed: its own resource for each profile, on each of two GPUs."""
    with simulated_nvml(BALANCED, BALANCED, node=NODE):
        async with site(tmp_path) as here:
            here.want(MigStrategy.MIXED)
            await eventually(
                lambda: (
                    here.offered()
                    == {
                        "nvidia.com/mig-1g.5gb": 4,
                        "nvidia.com/mig-2g.10gb": 2,
                        "nvidia.com/mig-3g.20gb": 2,
                    }
                )
            )


async def test_what_the_agent_cut_belongs_to_the_trace_of_its_change(
    tmp_path: pathlib.Path,
) -> None:
    """What somebody else cuts later begins a trace of its own."""
    with simulated_nvml(EMPTY, node=NODE):
        async with site(tmp_path) as here:
            here.want(MigStrategy.MIXED)
            await eventually(lambda: here.heard and here.heard[-1].stamp.generation == FIRST)
            here.hold(1, release=True, traceparent=CHANGE)
            await eventually(lambda: here.heard[-1].paused_for == FIRST)
            await asyncio.to_thread(cut, 0, ("1g.5gb", 0))
            here.hold(2, release=False, traceparent=CHANGE)
            await eventually(lambda: here.offered().total() == 1)
            assert context.trace_id(here.heard[-1].traceparent) == context.trace_id(CHANGE)
            await asyncio.to_thread(cut, 0, ("1g.5gb", 1))
            await eventually(lambda: here.offered().total() == 2)
            assert context.trace_id(here.heard[-1].traceparent) != context.trace_id(CHANGE)


@pytest.mark.parametrize("strategy", [MigStrategy.MIXED, MigStrategy.SINGLE])
async def test_u063_an_empty_mig_gpu_offers_nothing_until_it_is_cut(
    tmp_path: pathlib.Path, strategy: MigStrategy
) -> None:
    """No crash and no restart: instances that appear are offered under their name."""
    name = "nvidia.com/mig-1g.5gb" if strategy is MigStrategy.MIXED else "nvidia.com/gpu"
    with simulated_nvml(EMPTY, node=NODE):
        async with site(tmp_path) as here:
            here.want(strategy)
            await eventually(lambda: here.heard and here.heard[-1].stamp.generation == FIRST)
            assert not here.offered()
            await asyncio.to_thread(cut, 0, ("1g.5gb", 0), ("1g.5gb", 1))
            await eventually(lambda: here.offered() == {name: 2})


async def test_single_offers_nothing_while_profiles_differ(tmp_path: pathlib.Path) -> None:
    """A conflict is no crash, and whoever holds something stays known (zero replicas)."""
    with simulated_nvml(BALANCED, node=NODE):
        async with site(tmp_path) as here:
            here.want(MigStrategy.SINGLE)
            await eventually(lambda: here.heard and here.heard[-1].shares)
            assert not here.offered()


async def test_media_extensions_have_a_resource_of_their_own(tmp_path: pathlib.Path) -> None:
    """The plus of the profile is a dot in the resource."""
    with simulated_nvml(EMPTY, node=NODE):
        async with site(tmp_path) as here:
            here.want(MigStrategy.MIXED)
            await asyncio.to_thread(cut, 0, ("1g.5gb+me", 0))
            await eventually(lambda: here.offered() == {"nvidia.com/mig-1g.5gb.me": 1})


async def test_an_xid_of_an_instance_strikes_its_device_only(tmp_path: pathlib.Path) -> None:
    """U049: the event carries the GPU instance; the GPU and its other devices stay healthy."""
    with simulated_nvml(BALANCED, node=NODE) as node:
        async with site(tmp_path) as here:
            here.want(MigStrategy.MIXED)
            await eventually(lambda: here.heard)
            await asyncio.to_thread(node.fault, {"gpu": 0, "xid": 94, "instance": 2})

            def struck() -> list[int]:
                (gpu,) = here.heard[-1].gpus
                assert gpu.health.state is HealthState.HEALTHY
                return [each.index for each in gpu.mig_devices if not each.health.usable]

            await eventually(lambda: struck() == [2])


async def test_devices_come_with_the_nodes_that_guard_them(tmp_path: pathlib.Path) -> None:
    """The driver's list in /proc has their numbers."""
    proc = tmp_path / "proc"
    await asyncio.to_thread(ProcTree(proc).begin, 1)
    with simulated_nvml(BALANCED, node=NODE):
        async with site(tmp_path, proc) as here:
            await eventually(lambda: here.heard)
            first = here.heard[-1].gpus[0].mig_devices[0]
            instance, compute = first.gpu_instance, first.compute_instance
            assert first.nodes == tuple(
                f"/dev/nvidia-caps/nvidia-cap{number}"
                for number in (
                    capabilities.minor(0, instance),
                    capabilities.minor(0, instance, compute),
                )
            )


def users(node: LocalTransport) -> int:
    return int(node.describe()["users"])


async def test_nvml_is_let_go_for_a_hold_and_comes_back_after_it(tmp_path: pathlib.Path) -> None:
    """What was known goes on standing; each attempt is answered by its order."""
    with simulated_nvml(BALANCED, node=NODE) as node:
        async with site(tmp_path) as here:
            here.want(MigStrategy.MIXED)
            await eventually(here.offered)
            before = here.heard[-1]
            assert users(node) == 1
            here.hold(1, release=True)
            await eventually(lambda: here.heard[-1].paused_order == 1)
            assert users(node) == 0
            assert here.heard[-1].paused_for == FIRST
            assert (here.heard[-1].gpus, here.heard[-1].shares) == (before.gpus, before.shares)
            await steadily(lambda: users(node) == 0, for_=0.2)
            here.hold(2, release=True)
            await eventually(lambda: here.heard[-1].paused_order == 2)
            here.hold(2, release=False)
            await eventually(lambda: here.heard[-1].paused_for is None)
            await eventually(lambda: users(node) == 1)


async def test_a_sick_gpu_stays_sick_while_nvml_is_let_go(tmp_path: pathlib.Path) -> None:
    """With its reason as it was, said once."""
    with simulated_nvml("a100-40gb", node=NODE) as node:
        async with site(tmp_path) as here:
            await eventually(lambda: here.heard)
            await asyncio.to_thread(node.fault, {"gpu": 0, "xid": 48})
            await eventually(lambda: here.heard[-1].gpus[0].health.xid == 48)
            before = here.heard[-1].gpus
            here.hold(1, release=True)
            await eventually(lambda: here.heard[-1].paused_order == 1)
            assert here.heard[-1].gpus == before
            here.hold(1, release=False)
            await eventually(lambda: here.heard[-1].paused_for is None)
            assert here.heard[-1].gpus == before
