"""Whether a process lives is asked over HTTP."""

from __future__ import annotations

import asyncio
import socket
import threading

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


PROBE = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"


async def test_a_living_process_says_so() -> None:
    """Also after a client that says nothing, or nothing that is HTTP."""
    port = free_port()
    async with running(health.serve(port)):
        answer = await eventually(lambda: asked(port, PROBE))
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.endswith(b"\r\n\r\nok\n")
        assert await asked(port, b"") == b""
        assert await asked(port, b"x" * 100_000) == b""
        assert await asked(port, PROBE) == answer


async def test_pages_are_served_beside_it_and_made_outside_of_the_loop() -> None:
    """A scrape that takes long holds up no probe."""
    port, free = free_port(), threading.Event()

    def slow() -> bytes:
        assert free.wait(20)
        return threading.current_thread().name.encode()

    pages = {"/metrics": health.Page("text/plain; version=0.0.4", slow)}
    async with running(health.serve(port, pages)), asyncio.TaskGroup() as tasks:
        await eventually(lambda: asked(port, PROBE))
        scrape = b"GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n"
        scraping = tasks.create_task(asked(port, scrape), name="scrape")
        assert (await asked(port, PROBE)).endswith(b"ok\n")
        assert not scraping.done()
        free.set()
        answer = await scraping
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"Content-Type: text/plain; version=0.0.4\r\n" in head
    assert body != threading.current_thread().name.encode()


async def test_what_is_switched_off_is_not_found() -> None:
    """A scraper of metrics that are off learns it, and does not read `ok` for a metric."""
    port = free_port()
    async with running(health.serve(port)):
        await eventually(lambda: asked(port, PROBE))
        answer = await asked(port, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 404 ")
        assert b"there is /livez" in answer
