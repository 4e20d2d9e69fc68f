"""The agent's composition: the one place that says which parts work together."""

from __future__ import annotations

import asyncio
import os

from services.reconfigurer.agent import loop
from services.reconfigurer.agent.settings import AgentSettings
from shared.bus import connection, logs, state
from shared.contract import table
from shared.contract.messages import Intent, Inventory, Progress
from shared.runtime import locks
from shared.telemetry import setup

SERVICE = table.Role.AGENT


async def serve(settings: AgentSettings) -> None:
    """Serve until cancelled. A second process waits here until the first one's lock falls."""
    node = settings.node_name
    async with (
        locks.ServingLock(settings.run_dir / "agent.lock"),
        setup.telemetry(SERVICE, node, os.environ) as telemetry,
        connection.open_bus(settings.bus_url, settings.login, SERVICE, node) as bus,
        asyncio.TaskGroup() as tasks,
    ):
        spans = logs.SpanWriter(bus, node, SERVICE)
        telemetry.sink = spans.add
        progress: state.StateWriter[Progress] = state.StateWriter(
            bus, table.bucket("progress"), node
        )
        agent = loop.Loop(bus.stamp(node), progress.put, telemetry)
        intents: state.StateReader[Intent] = state.StateReader(
            bus, table.bucket("intent"), node, agent.on_intent
        )
        inventories: state.StateReader[Inventory] = state.StateReader(
            bus, table.bucket("inventory"), node, agent.on_inventory
        )
        agent.say()
        for work, name in (
            (intents.run(), "read intent"),
            (inventories.run(), "read inventory"),
            (progress.run(), "write progress"),
            (spans.run(), "write spans"),
        ):
            tasks.create_task(work, name=name)
