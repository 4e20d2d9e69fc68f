"""Answers whoever asks whether this process lives: one HTTP answer to any request, from its loop.

A loop that hangs does not answer, and the kubelet restarts the container. Nothing else is said
here: a service that waits for its lock, the bus or the Lease is well.
"""

from __future__ import annotations

import asyncio
import contextlib

ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n"
    b"Connection: close\r\n\r\nok\n"
)
ASK_S = 5.0


async def serve(port: int) -> None:
    """Answer on all addresses until cancelled.

    Raises:
        OSError: the port is taken.
    """
    server = await asyncio.start_server(_answer, port=port)
    async with server:
        await server.serve_forever()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
        async with asyncio.timeout(ASK_S):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(ANSWER)
            await writer.drain()
    writer.close()
