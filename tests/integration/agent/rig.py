"""A node whose services are real processes on simulated GPUs; the controller is played by hand."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import pathlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from services.rehearsal.embedded.node import EmbeddedNode
from services.rehearsal.embedded.scraping import Targets
from services.rehearsal.story import Node, Service
from shared.bus import connection, ensure, fleet, logs
from shared.bus.connection import Bus
from shared.bus.login import Login
from shared.bus.state import Received
from shared.contract import table
from shared.contract.generation import Generation
from shared.contract.messages import Hold, Intent, Inventory, Ledger, MigPolicy, Phase, Progress
from shared.contract.spans import SpanRecord
from shared.contract.table import Role
from shared.domain.sharing import UNSHARED, MigStrategy
from shared.geometry.config import Row
from shared.simulation.broker import Broker
from shared.simulation.kube import api_client
from shared.simulation.kube.apiserver.server import ApiServer
from tests.support import hardware
from tests.support.eventually import eventually
from tests.support.one_node import NAME, QUICK, OneNode
from tests.support.running import running

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
WITHIN = 30.0


class Site:
    """One node, and what a controller does and hears."""

    def __init__(self, here: EmbeddedNode, node: OneNode, command: Bus, admin: Bus) -> None:
        self.here = here
        self.node = node
        self.command = command
        self.admin = admin
        self.intents: fleet.FleetWriter[Intent] = fleet.FleetWriter(admin, table.bucket("intent"))
        self.intent: Intent | None = None
        self.told: list[Progress] = []
        self.holds: list[Hold] = []
        self.ledgers: list[Ledger] = []
        self.inventories: list[Inventory] = []
        self.evicts = True
        self.evicted: set[str] = set()

    def want(self, name: str, *rows: Row, generation: Generation) -> None:
        """Write an intent: MIG strategy mixed, everything unshared."""
        sharing = dataclasses.replace(UNSHARED, mig_strategy=MigStrategy.MIXED)
        wanted = hardware.intent(sharing, generation, NAME)
        self._write(
            dataclasses.replace(
                wanted, mig_config=name, mig_rows=rows, mig_policy=MigPolicy(reboot=True)
            )
        )

    def _write(self, intent: Intent) -> None:
        self.intent = intent
        self.intents.put(NAME, intent, TRACE)

    def heard_progress(self, _node: str, received: Received[Progress]) -> None:
        """Prepare at once."""
        told = received.value
        self.told.append(told)
        asked = told.phase is Phase.PREPARE and self.intent is not None
        if asked and self.intent and told.stamp.generation == self.intent.stamp.generation:
            self._write(
                dataclasses.replace(
                    self.intent, prepared_for=told.stamp.generation, prepared_order=told.order
                )
            )

    async def evicting(self) -> None:
        """Delete the blockers while they are named."""
        while True:
            last = self.told[-1] if self.told else None
            if last is not None and last.phase is Phase.HOLDING and self.evicts:
                for pod in {holder.pod for holder in last.blockers} - self.evicted:
                    self.evicted.add(pod)
                    await self.node.delete(pod)
            await asyncio.sleep(0.05)

    async def until(self, phase: Phase, generation: Generation) -> Progress:
        """Wait for the agent to say it of a generation."""

        def said() -> bool:
            last = self.told[-1] if self.told else None
            return last is not None and last.phase is phase and last.stamp.generation == generation

        await eventually(said, within=WITHIN)
        return self.told[-1]

    async def gpus(self) -> list[dict[str, Any]]:
        """The GPUs as the simulation describes them."""
        return list((await self.here.hardware.describe())["gpus"])

    async def writes(self, index: int) -> Mapping[str, int]:
        """Writing calls that a GPU got."""
        found: Mapping[str, int] = (await self.here.hardware.describe())["writes"].get(
            str(index), {}
        )
        return found

    async def spans(self) -> list[SpanRecord]:
        """Finished spans of the change's trace."""
        trace = TRACE.split("-")[1]
        return await logs.read_spans(self.command, trace)

    @property
    def agent(self) -> Any:
        """The agent's process."""
        return self.here.processes[Service.AGENT]


@contextlib.asynccontextmanager
async def site(folder: pathlib.Path, *gpus: str | Mapping[str, Any]) -> AsyncIterator[Site]:
    """Start everything; it ends with the block."""
    broker = Broker(folder / "bus", nodes=[NAME])
    await broker.start()
    server = ApiServer()
    url = await server.start()
    logs_folder = folder / "logs"
    logs_folder.mkdir()
    told = Node(name=NAME, gpus=gpus, kubelet=QUICK)
    here = EmbeddedNode(
        told,
        folder / "n",
        logs=logs_folder,
        api_url=url,
        broker=broker,
        targets=Targets("slicewire"),
    )
    await asyncio.to_thread(here.write_files)
    try:
        async with (
            _bus(broker, Role.COMMAND) as command,
            _bus(broker, Role.CONTROLLER) as admin,
            api_client.ApiClient(url) as api,
        ):
            await ensure.ensure_streams(admin)
            view = OneNode(api=api, kubelet=here.kubelet, server=server, patience=WITHIN)
            found = Site(here, view, command, admin)
            async with running(
                found.intents.run(), found.evicting(), here.kubelet.run(), *_ears(found)
            ):
                await here.kubelet.start()
                await here.start_hardware()
                for process in here.processes.values():
                    await process.start()
                yield found
    finally:
        for process in here.everything:
            await process.stop()
        await server.stop()
        await broker.stop()


def _bus(broker: Broker, role: Role) -> contextlib.AbstractAsyncContextManager[Bus]:
    user, password = broker.credentials(role)
    return connection.open_bus(broker.url, Login(user, password), role)


def _ears(found: Site) -> tuple[Any, ...]:
    def ear(name: str, hear: Any) -> Any:
        return fleet.FleetReader(found.admin, table.bucket(name), hear).run()

    return (
        ear("progress", found.heard_progress),
        ear("ledger", lambda _, each: found.ledgers.append(each.value)),
        ear("inventory", lambda _, each: found.inventories.append(each.value)),
        fleet.FleetReader[Hold](
            found.command, table.bucket("hold"), lambda _, each: found.holds.append(each.value)
        ).run(),
    )
