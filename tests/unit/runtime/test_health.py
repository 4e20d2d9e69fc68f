"""Whether a process lives is asked over HTTP."""

from __future__ import annotations

import asyncio
import socket

from shared.runtime import health
from tests.support.eventually import eventually
from tests.support.running import running


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


async def asked(port: int, request: bytes) -> bytes:
    """What comes back; nothing where nobody listens."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return b""
    writer.write(request)
    if not request.endswith(b"\r\n\r\n"):
        writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_a_living_process_says_so_whatever_is_asked() -> None:
    """Also after a client that says nothing, or nothing that is HTTP."""
    port = free_port()
    async with running(health.serve(port)):
        probe = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
        answer = await eventually(lambda: asked(port, probe))
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.endswith(b"\r\n\r\nok\n")
        assert await asked(port, b"") == b""
        assert await asked(port, b"x" * 100_000) == b""
        assert await asked(port, probe) == answer
