"""What the stand-ins' client makes of an API server that hangs up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from shared.simulation.kube.api_client import ApiClient, ApiRefusedError

HALF_A_PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf"


@pytest.fixture(params=[b"", HALF_A_PAGE], ids=["at-once", "in-the-middle"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[ApiClient]:
    """A client of a server that says this much and hangs up."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(request.param)
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with ApiClient(f"http://127.0.0.1:{port}") as found:
            yield found


async def test_a_page_that_is_cut_off_is_an_os_error(client: ApiClient) -> None:
    """Whoever reads it has one kind of error for a server that is away."""
    with pytest.raises(OSError, match="the connection was lost"):
        await client.text("/page")


async def test_a_command_that_is_not_taken_is_an_error_that_says_so(client: ApiClient) -> None:
    """Refused where there was an answer, away where there was none."""
    with pytest.raises((OSError, ApiRefusedError)):
        await client.run("/pod", ["true"], "main")
