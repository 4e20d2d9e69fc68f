"""The protocol between shims and owner: a length of four bytes, then that many bytes of JSON.

    {"process": p, "call": symbol, "args": [..]}  ->  {"code": n, "out": [..]}
    {"control": "fault" | "heal" | "start", "map": {..}}  ->  {"error": ""} or a sentence
    {"control": "end", "pid": n}                  ->  the same
    {"control": "reboot"}                         ->  the same
    {"control": "reset", "gpu": g}                ->  {"error": "", "bus": b, "code": n}
    {"control": "mps", "gpu": g, "pid": n}        ->  {"error": why} when the daemon has to die
    {"control": "describe"}                       ->  {"error": "", "node": {..}}

A process names itself by a token of its own, <program>:<pid>:<anything>; its connections come
and go.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from typing import Any

_LENGTH = struct.Struct(">I")


def pack(message: dict[str, Any]) -> bytes:
    """Write a message as it travels."""
    data = json.dumps(message, separators=(",", ":")).encode()
    return _LENGTH.pack(len(data)) + data


async def read(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Read the next message, None where the other side has closed."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        return dict(json.loads(await reader.readexactly(length)))
    except asyncio.IncompleteReadError:
        return None


def receive(connection: socket.socket) -> dict[str, Any]:
    """Read the next message in a thread that may block.

    Raises:
        ConnectionError: the other side has closed.
    """
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    return dict(json.loads(_exactly(connection, length)))


def _exactly(connection: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise ConnectionResetError("the owner of the simulated GPUs has closed")
        data += part
    return bytes(data)
