"""Readers while a connection closes: they wait, and the loop goes on."""

from __future__ import annotations

import asyncio
import pathlib

from shared.bus import connection, following
from shared.bus.login import Login
from shared.bus.session import Message, Session
from shared.contract.table import Role
from shared.simulation import broker


async def test_a_reader_does_not_hold_the_loop_while_its_connection_closes(
    tmp_path: pathlib.Path,
) -> None:
    """The client refuses at once and the session has not been told yet."""
    server = broker.Broker(tmp_path)
    await server.start()
    user, password_file = server.credentials(Role.CONTROLLER)

    async def look(_: Session) -> None:
        """See nothing."""

    def take(_: Message) -> None:
        """Want nothing."""

    try:
        async with (
            asyncio.timeout(10),
            connection.open_bus(server.url, Login(user, password_file), Role.CONTROLLER) as bus,
            asyncio.TaskGroup() as tasks,
        ):
            session = await bus.session()
            client = session._client
            await client._close(client.CLOSED, False)  # as when the server goes away
            reading = tasks.create_task(following.follow(bus, ("sw.intent.*",), look, take))
            await asyncio.sleep(0.1)
            reading.cancel()
    finally:
        await server.stop()
