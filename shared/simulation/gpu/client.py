"""The shim's way to the owner: blocking, from any thread, and back when the owner is back.

Where there is no owner the driver is not loaded; where it was restarted it has forgotten this
process, as a reloaded driver has.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from shared.nvml.errors import Code
from shared.simulation.gpu import wire

_POLL_S = 0.05
_INIT = "nvmlInitWithFlags"


class SocketTransport:
    """Carries calls over a unix socket; as many connections as calls are under way at once.

    `program` is what the owner shows of this process beside its pid.
    """

    def __init__(self, path: Path, program: str = "slicewire") -> None:
        self._path = path
        self._process = f"{program}:{os.getpid()}:{uuid.uuid4().hex}"
        self._idle: list[socket.socket] = []
        self._guard = threading.Lock()

    def call(self, symbol: str, args: list[int]) -> tuple[int, list[Any]]:
        """Ask the owner; say that the driver is away where it cannot be asked."""
        try:
            reply = self._ask({"process": self._process, "call": symbol, "args": args})
        except OSError:
            self.close()  # what else is open goes to the same owner, which has gone
            return (Code.DRIVER_NOT_LOADED if symbol == _INIT else Code.UNINITIALIZED), []
        return reply["code"], reply["out"]

    def wait(self, within_s: float) -> bool:
        """Wait for an owner to listen; say whether one does."""
        end = time.monotonic() + within_s
        while True:
            try:
                self._give_back(self._connect())
            except OSError:
                if time.monotonic() > end:
                    return False
                time.sleep(_POLL_S)
            else:
                return True

    def close(self) -> None:
        """Close the connections that carry no call now; a later call opens new ones."""
        with self._guard:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        connection = self._take()
        try:
            connection.sendall(wire.pack(request))
            reply = wire.receive(connection)
        except OSError:
            connection.close()
            raise
        self._give_back(connection)
        return reply

    def _take(self) -> socket.socket:
        with self._guard:
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def _give_back(self, connection: socket.socket) -> None:
        with self._guard:
            self._idle.append(connection)

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(str(self._path))
        except OSError:
            connection.close()
            raise
        return connection
