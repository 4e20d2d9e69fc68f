"""Servers that answer late, refuse, or end a credential: a scripted one says what they say."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from shared.bus import connection
from shared.bus.client import BusClient, nats_errors
from shared.bus.login import Login
from shared.contract.table import Role
from tests.support.eventually import eventually

INFO = {"server_id": "S", "version": "2.15.1", "max_payload": 1 << 20, "headers": True}
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def server(script: Script) -> AsyncIterator[str]:
    """A server that says INFO, reads CONNECT and the client's PING, and goes on by the script."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            writer.write(b"INFO " + json.dumps(INFO).encode() + b"\r\n")
            assert (await reader.readline()).startswith(b"CONNECT")
            assert await reader.readline() == b"PING\r\n"
            await script(reader, writer)

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        host, port = listening.sockets[0].getsockname()
        yield f"nats://{host}:{port}"


async def answer_pings(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Go on as a server that has let somebody in."""
    while line := await reader.readline():
        if line == b"PING\r\n":
            writer.write(b"PONG\r\n")


async def test_a_ping_before_the_verdict_is_not_the_verdict() -> None:
    """The client waits until the server has let it in, and is connected then."""
    decided = asyncio.Event()

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"PING\r\n")
        await writer.drain()
        await asyncio.sleep(0.1)  # a review of the credential
        decided.set()
        writer.write(b"PONG\r\n")
        await answer_pings(reader, writer)

    async with server(late) as url:
        client = BusClient()
        await client.connect(url, allow_reconnect=False)
        assert decided.is_set()
        assert client.is_connected
        await client.flush()
        await client.close()


async def test_a_refusal_after_a_ping_is_a_refusal() -> None:
    """The client does not believe itself in, and does not wait for its time limit."""

    async def refusing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"PING\r\n-ERR 'Authorization Violation'\r\n")

    async with server(refusing) as url, asyncio.timeout(3):
        client = BusClient()
        with pytest.raises(nats_errors.Error, match="without letting us in"):
            await client.connect(url, allow_reconnect=False, error_cb=ignore)
        await client.close()


async def ignore(_error: Exception) -> None:
    """Take no notice."""


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"-ERR 'User Authentication Expired'\r\n", id="the credential expired"),
        pytest.param(b"-ERR 'Authorization Violation'\r\n", id="the user was removed"),
        pytest.param(b"-ERR 'Stale Connection'\r\n", id="stale"),
        pytest.param(b"-ERR 'Something new'\r\n", id="an error nobody knows"),
        pytest.param(b"nonsense\r\n", id="no NATS"),
        pytest.param(b"", id="nothing at all"),
    ],
)
async def test_whatever_ends_a_connection_the_next_one_begins(said: bytes) -> None:
    """No word of a server closes the bus for good."""
    visits = 0

    async def ending(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal visits
        visits += 1
        writer.write(b"PONG\r\n")
        if visits < 3:
            await reader.readline()
            writer.write(said)
            await writer.drain()
            return
        await answer_pings(reader, writer)

    async with server(ending) as url, connection.open_bus(url, Login(), Role.COMMAND) as bus:
        await eventually(lambda: visits == 3 and bus.connected)
        assert bus.reconnects == 2


async def test_a_missing_password_file_is_waited_for(tmp_path: pathlib.Path) -> None:
    """A Secret that is mounted late is read when it is there."""
    file = tmp_path / "password"

    async def welcoming(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"PONG\r\n")
        await answer_pings(reader, writer)

    async with (
        server(welcoming) as url,
        connection.open_bus(url, Login("u", file), Role.COMMAND) as bus,
    ):
        await asyncio.sleep(0)
        assert not bus.connected
        file.write_text("secret\n")
        await eventually(lambda: bus.connected)
