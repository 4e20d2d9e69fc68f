"""The agent on a real bus: it follows its intent and says where it stands."""

from __future__ import annotations

import asyncio
import pathlib

from services.reconfigurer.agent import app
from services.reconfigurer.agent.settings import AgentSettings
from shared.bus import connection, ensure
from shared.bus import fleet as bus_fleet
from shared.bus.login import Login
from shared.bus.state import Received
from shared.contract import table
from shared.contract.generation import Generation
from shared.contract.messages import ConfigState, Intent, Phase, Progress, Source
from shared.contract.table import Role
from shared.domain.sharing import UNSHARED, SourceKind
from shared.simulation import broker
from tests.support.eventually import eventually

NODE = "gpu-a.example"


async def test_it_answers_each_intent_with_idle_and_a_reason(tmp_path: pathlib.Path) -> None:
    """A second agent of the node waits for the first one's lock and then answers as well."""
    server = broker.Broker(tmp_path / "bus", nodes=[NODE])
    await server.start()
    user, password_file = server.credentials(Role.CONTROLLER)
    heard: list[Progress] = []

    def hear(_: str, received: Received[Progress]) -> None:
        heard.append(received.value)

    try:
        async with (
            connection.open_bus(server.url, Login(user, password_file), Role.CONTROLLER) as bus,
            asyncio.TaskGroup() as tasks,
        ):
            await ensure.ensure_streams(bus)
            reader: bus_fleet.FleetReader[Progress] = bus_fleet.FleetReader(
                bus, table.bucket("progress"), hear
            )
            writer: bus_fleet.FleetWriter[Intent] = bus_fleet.FleetWriter(
                bus, table.bucket("intent")
            )
            started = [
                tasks.create_task(work)
                for work in (
                    reader.run(),
                    writer.run(),
                    app.serve(_settings(server, tmp_path)),
                )
            ]
            intent = Intent(
                stamp=bus.stamp(NODE, Generation(1, 1)),
                sharing=UNSHARED,
                source=Source(kind=SourceKind.NONE),
                state=ConfigState.UNSHARED,
            )
            writer.put(NODE, intent)
            await eventually(lambda: heard and heard[-1].stamp.generation == Generation(1, 1))
            assert heard[-1].phase is Phase.IDLE
            assert "nothing to do" in heard[-1].sentence
            first = heard[-1].stamp.writer
            second = tasks.create_task(app.serve(_settings(server, tmp_path)))
            started[2].cancel()
            await eventually(lambda: heard[-1].stamp.writer != first)
            await eventually(lambda: heard[-1].stamp.generation == Generation(1, 1))
            for task in (*started, second):
                task.cancel()
    finally:
        await server.stop()


def _settings(server: broker.Broker, folder: pathlib.Path) -> AgentSettings:
    user, password_file = server.credentials(Role.AGENT, NODE)
    return AgentSettings(
        node_name=NODE,
        run_dir=folder,
        bus_url=server.url,
        bus_user=user,
        bus_password_file=password_file,
    )
