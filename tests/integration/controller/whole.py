"""The whole controller on an embedded API server and a real nats-server, with hands on its bus."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import pathlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field

from services.reconfigurer.controller import app
from services.reconfigurer.controller.settings import ControllerSettings
from shared.bus import connection, state
from shared.bus import fleet as bus_fleet
from shared.bus.connection import Bus
from shared.bus.login import Login
from shared.bus.state import Received
from shared.contract import table
from shared.contract.messages import Intent, Inventory, Ledger
from shared.contract.table import Role
from shared.domain.gpu import Gpu
from shared.sharing import shares
from shared.simulation import broker
from shared.telemetry import meters
from tests.integration.controller import cluster
from tests.support.eventually import eventually

NODE = "gpu-a.example"
CONFIG_LABEL = "nvidia.com/device-plugin.config"


def text(replicas: int, extra: str = "") -> str:
    """A sharing text with so many replicas."""
    return (
        "version: v1\n"
        "sharing:\n"
        "  timeSlicing:\n"
        f"{extra}"
        "    resources:\n"
        "    - name: nvidia.com/gpu\n"
        f"      replicas: {replicas}\n"
    )


BAD = text(4).replace("replicas:", "replica:")


@dataclass
class Whole:
    """What a test holds in its hands."""

    at: cluster.Cluster
    bus_server: broker.Broker
    bus: Bus
    settings: ControllerSettings
    tasks: asyncio.TaskGroup
    intents: dict[str, list[Received[Intent]]] = field(default_factory=dict)

    def start(self, measured: meters.Meters = meters.NOTHING) -> asyncio.Task[None]:
        """Start a controller; cancel it to stop it as planned."""
        return self.tasks.create_task(app.serve(self.settings, measured))

    def heard(self, node: str, received: Received[Intent]) -> None:
        """Note an intent in order of arrival."""
        self.intents.setdefault(node, []).append(received)

    def newest(self, node: str = NODE) -> Intent | None:
        """The newest intent that has been heard for a node."""
        heard = self.intents.get(node)
        return heard[-1].value if heard else None

    async def wanted(
        self, holds: Callable[[Intent], bool] = bool, *, within: float = 5.0
    ) -> Intent:
        """Wait until the newest intent is one for which this holds."""

        def look() -> bool:
            newest = self.newest()
            return newest is not None and holds(newest)

        await eventually(look, within=within)
        newest = self.newest()
        assert newest is not None
        return newest

    def replicas(self, node: str = NODE) -> int | None:
        """How many replicas the newest intent wants."""
        wanted = self.newest(node)
        resources = wanted.sharing.resources if wanted else ()
        return resources[0].replicas if resources else None

    async def config(self, data: Mapping[str, str] | None) -> None:
        """Make the sharing ConfigMap hold exactly these keys."""
        await self.at.config_map(self.settings.config_map, data)

    def command(self) -> contextlib.AbstractAsyncContextManager[Bus]:
        """A person's place on the bus."""
        user, password_file = self.bus_server.credentials(Role.COMMAND)
        return connection.open_bus(self.bus_server.url, Login(user, password_file), Role.COMMAND)


@contextlib.asynccontextmanager
async def running(folder: pathlib.Path, *, lease_s: float = 10.0) -> AsyncIterator[Whole]:
    """Everything but the controller; tests start as many as they like."""
    server = broker.Broker(folder, nodes=[NODE])
    await server.start()
    user, password_file = server.credentials(Role.CONTROLLER)
    try:
        async with (
            cluster.running() as at,
            connection.open_bus(server.url, Login(user, password_file), Role.CONTROLLER) as bus,
            asyncio.TaskGroup() as tasks,
        ):
            settings = ControllerSettings(
                namespace=cluster.NAMESPACE,
                lease_seconds=lease_s,
                api_url=at.url,
                bus_url=server.url,
                bus_user=user,
                bus_password_file=password_file,
            )
            whole = Whole(at, server, bus, settings, tasks)
            reader: bus_fleet.FleetReader[Intent] = bus_fleet.FleetReader(
                bus, table.bucket("intent"), whole.heard, look_every=0.2
            )
            tasks.create_task(reader.run())
            yield whole
            tasks.create_task(_end())
    except* _EndError:
        pass
    finally:
        await server.stop()


class _EndError(Exception):
    """Ends the task group of a test with all its controllers."""


async def _end() -> None:
    raise _EndError


@contextlib.asynccontextmanager
async def node_services(whole: Whole, node: str, gpus: tuple[Gpu, ...]) -> AsyncIterator[NodeHand]:
    """A node's advertiser and allocator, played by hand."""
    async with contextlib.AsyncExitStack() as stack:
        buses = {}
        for role in (Role.ADVERTISER, Role.ALLOCATOR):
            user, password_file = whole.bus_server.credentials(role, node)
            buses[role] = await stack.enter_async_context(
                connection.open_bus(whole.bus_server.url, Login(user, password_file), role, node)
            )
        async with asyncio.TaskGroup() as tasks:
            hand = NodeHand(
                node,
                gpus,
                state.StateWriter(buses[Role.ADVERTISER], table.bucket("inventory"), node),
                state.StateWriter(buses[Role.ALLOCATOR], table.bucket("ledger"), node),
                buses[Role.ADVERTISER],
            )
            running_tasks = [
                tasks.create_task(hand.inventories.run()),
                tasks.create_task(hand.ledgers.run()),
            ]
            yield hand
            for task in running_tasks:
                task.cancel()


@dataclass
class NodeHand:
    """Publishes what a node's services would."""

    node: str
    gpus: tuple[Gpu, ...]
    inventories: state.StateWriter[Inventory]
    ledgers: state.StateWriter[Ledger]
    bus: Bus

    def answer(self, wanted: Received[Intent] | None = None) -> Inventory:
        """Publish the inventory that answers an intent; without one, the hardware alone."""
        sharing = wanted.value.sharing if wanted else None
        stamp = self.bus.stamp(self.node)
        if wanted:
            stamp = dataclasses.replace(stamp, generation=wanted.value.stamp.generation)
        inventory = Inventory(
            stamp=stamp,
            driver_version="580.95.05",
            cuda_version=(13, 0),
            gpus=self.gpus,
            shares=shares.shares(self.gpus, sharing).shares if sharing else (),
        )
        self.inventories.put(inventory, wanted.traceparent if wanted else "")
        return inventory
