"""gRPC over unix sockets: serve handlers on a path, call a path with a deadline.

The allocator and the fake kubelet both stand on this. A server here really goes away when it is
closed: grpclib alone would go on answering on the connections it already has, so the kubelet would
never see a plugin end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import stat
from collections.abc import AsyncIterator, Collection, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, cast

from google.protobuf import message
from grpclib import client, exceptions, server

if TYPE_CHECKING:
    from grpclib._typing import IServable
    from grpclib.protocol import H2Protocol

# A unix socket's address holds 108 bytes, the last of them a zero.
LONGEST_PATH: Final = 107

# What a call raises when nobody answers: no socket, nobody behind it, gone meanwhile, too late, or
# somebody whose answer is none. (TimeoutError is an OSError.)
UNREACHABLE: Final = (OSError, exceptions.StreamTerminatedError, message.DecodeError)

# Turns of the loop that asyncio needs from a connection's acceptance until a protocol is told.
_ACCEPTING: Final = 2

# Inode and time of creation.
Identity = tuple[int, int]


class UnixServer:
    """Handlers served on one socket file; a stale file in its place is removed at start."""

    def __init__(self, path: str | pathlib.Path, handlers: Collection[IServable]) -> None:
        self.path = pathlib.Path(path)
        self._server = _HangingUpServer(handlers)
        self._identity: Identity | None = None

    async def start(self) -> None:
        """Listen. OSError where the path is too long or its folder is not there."""
        if len(os.fsencode(self.path)) > LONGEST_PATH:
            raise OSError(
                f"the socket path {self.path} is longer than {LONGEST_PATH} bytes; "
                "choose a shorter folder"
            )
        await asyncio.to_thread(_remove_socket, self.path)
        await self._server.start(path=str(self.path))
        self._identity = await identity(self.path)

    async def close(self) -> None:
        """Stop listening, end the calls and connections in progress, remove our socket file."""
        await self.hang_up()
        await asyncio.to_thread(_remove_socket, self.path, self._identity)

    async def hang_up(self) -> None:
        """End as a killed process does: the socket file stays, with nobody behind it."""
        await self._server.hang_up()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class _HangingUpServer(server.Server):
    """grpclib's server, which can also end the connections that it has accepted."""

    def __init__(self, handlers: Collection[IServable]) -> None:
        super().__init__(handlers)
        self._accepted: dict[H2Protocol, server.Handler] = {}

    def _protocol_factory(self) -> H2Protocol:
        self._accepted = {old: it for old, it in self._accepted.items() if not it.closing}
        protocol = super()._protocol_factory()
        self._accepted[protocol] = cast("server.Handler", protocol.handler)
        return protocol

    async def hang_up(self) -> None:
        """Cancel the calls in progress, let them say goodbye, then close their connections."""
        await self._accept_no_more()
        self.close()
        for protocol, handler in self._accepted.items():
            await handler.wait_closed()
            protocol.processor.close()
        await self.wait_closed()

    async def _accept_no_more(self) -> None:
        """Let connections be made that are half made: asyncio would neither make nor end them."""
        loop = asyncio.get_running_loop()
        for listening in cast("asyncio.Server", self._server).sockets:
            loop.remove_reader(listening.fileno())
        for _ in range(_ACCEPTING):
            await asyncio.sleep(0)


def _remove_socket(path: pathlib.Path, only: Identity | None = None) -> None:
    """Remove a socket file, given an identity only that very file: a successor's stays."""
    found = _identity(path)
    if found is not None and only in (None, found):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


async def identity(path: pathlib.Path) -> Identity | None:
    """Say which socket file stands at a path, None where none does.

    A kubelet that restarts makes its socket anew; filesystems give its inode to the new file, so
    the inode alone doesn't tell.
    """
    return await asyncio.to_thread(_identity, path)


def _identity(path: pathlib.Path) -> Identity | None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return (found.st_ino, found.st_mtime_ns) if stat.S_ISSOCK(found.st_mode) else None


class Channel(client.Channel):
    """grpclib's channel, for which a peer that is gone before the first write is unreachable.

    Its own makes a stream of such a connection, and ends with an AttributeError.
    """

    async def __connect__(self) -> H2Protocol:
        protocol = await super().__connect__()
        if not self._connected:
            raise exceptions.StreamTerminatedError("Connection lost")
        return protocol


@contextlib.asynccontextmanager
async def channel(path: str | pathlib.Path) -> AsyncIterator[client.Channel]:
    """Open a client channel to a socket file and close it at the end of the block.

    The connection is made by the first call; give each call its own `timeout=`. Calls raise one of
    `UNREACHABLE`, or GRPCError with the peer's answer.
    """
    connection = Channel(path=str(path))
    with _cancels_taken_back():
        try:
            yield connection
        finally:
            connection.close()


@contextlib.contextmanager
def _cancels_taken_back() -> Iterator[None]:
    """Take back the cancellations by which grpclib ends a call that is too late or cut off.

    It cancels the caller's task, turns that into its own error, and never says `uncancel`. With a
    cancellation left in the count, asyncio.timeout of an early Python 3.11 (.2 does, .7 does not)
    takes the next time limit that runs out for a cancellation from outside: the task ends, and
    nobody knows why.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    ours = True
    try:
        yield
    except asyncio.CancelledError:
        ours = False
        raise
    finally:
        while ours and task and task.cancelling() > before:
            task.uncancel()
