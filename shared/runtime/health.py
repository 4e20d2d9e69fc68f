"""Answers whoever asks whether this process lives, over HTTP, from its loop; and serves pages.

A loop that hangs does not answer, and the kubelet restarts the container. Nothing else is said
here: a service that waits for its lock, the bus or the Lease is well. Pages are what others have to
show (metrics); they are made in a thread, one at a time. Any other path is not found, so a
scraper that asks for what is switched off learns it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

LIVE = ("/livez", "/healthz", "/")
PLAIN = "text/plain; charset=utf-8"
ASK_S = 5.0
MOST_BYTES = 16 * 1024  # of a request


class PortError(Exception):
    """The port cannot be listened on; the text is the system's."""


@dataclass(frozen=True, slots=True)
class Page:
    """What a path shows. `text` may take its time; it is called in a thread."""

    content_type: str
    text: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class _Server:
    pages: Mapping[str, Page]
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gone = (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)
        with contextlib.closing(writer), contextlib.suppress(*gone):
            async with asyncio.timeout(ASK_S):
                path = _path(await reader.readuntil(b"\r\n\r\n"))
            writer.write(await self._response(path))
            async with asyncio.timeout(ASK_S):
                await writer.drain()

    async def _response(self, path: str) -> bytes:
        if path in LIVE:
            return _http("200 OK", PLAIN, b"ok\n")
        page = self.pages.get(path)
        if page is None:
            there = ", ".join((LIVE[0], *self.pages))
            return _http("404 Not Found", PLAIN, f"not found; there is {there}\n".encode())
        async with self.turn:
            return _http("200 OK", page.content_type, await asyncio.to_thread(page.text))


async def serve(port: int, pages: Mapping[str, Page] | None = None) -> None:
    """Answer on all addresses until cancelled; `pages` by path.

    Raises:
        PortError: the port is taken, or not for this process to take.
    """
    served = _Server(pages or {})
    try:
        server = await asyncio.start_server(served.answer, port=port, limit=MOST_BYTES)
    except OSError as error:
        raise PortError(error.strerror or str(error)) from error
    async with server:
        await server.serve_forever()


def _path(request: bytes) -> str:
    """The path of a request line, empty where there is none."""
    words = request.split(b"\r\n", 1)[0].split(b" ")
    return words[1].partition(b"?")[0].decode("ascii", "replace") if len(words) == 3 else ""


def _http(status: str, content_type: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
