"""A stop ends a place on the bus, whatever it was doing."""

from __future__ import annotations

import asyncio
import pathlib

from shared.bus import connection
from shared.bus.login import Login
from shared.contract.table import Role
from shared.simulation import broker

MOMENTS = 60
APART_S = 0.0005


async def test_a_stop_at_any_moment_of_a_login_ends_it(tmp_path: pathlib.Path) -> None:
    """No cancellation is lost between our code and the client library's."""
    server = broker.Broker(tmp_path)
    await server.start()
    login = Login(*server.credentials(Role.COMMAND))
    try:
        for moment in range(MOMENTS):
            async with asyncio.timeout(10):
                async with connection.open_bus(server.url, login, Role.COMMAND):
                    await asyncio.sleep(moment * APART_S)
    finally:
        await server.stop()


async def test_a_stop_while_the_server_is_away_ends_it(tmp_path: pathlib.Path) -> None:
    """Also between two tries and in the middle of one."""
    server = broker.Broker(tmp_path)
    await server.start()
    login = Login(*server.credentials(Role.COMMAND))
    await server.stop()
    for moment in range(MOMENTS):
        async with asyncio.timeout(10):
            async with connection.open_bus(server.url, login, Role.COMMAND):
                await asyncio.sleep(moment * APART_S)
