"""All nodes' values of one bucket: for the controller and the commands.

Readers of a fleet take the whole bucket page by page, and hear what is stored afterwards.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Container
from typing import Generic, TypeVar

from shared.bus import following, freshness
from shared.bus.connection import Bus
from shared.bus.session import Message, Session
from shared.bus.state import Received, Reception
from shared.bus.writing import Keeper
from shared.contract import table
from shared.contract.table import Bucket

M = TypeVar("M")


def _token(message: Message) -> str:
    return message.headers.get(freshness.SUBJECT, "").rpartition(".")[2]


class FleetReader(Generic[M]):
    """Calls `on_value` with the node and each newer value of every node.

    `on_renewed` gets those that were stored anew as they were, `on_gone` the nodes that were
    buried.
    """

    def __init__(
        self,
        bus: Bus,
        bucket: Bucket,
        on_value: Callable[[str, Received[M]], None],
        *,
        look_every: float = following.LOOK_EVERY_S,
        on_renewed: Callable[[str, Received[M]], None] | None = None,
        on_gone: Callable[[str], object] | None = None,
    ) -> None:
        self._bus = bus
        self._bucket = bucket
        self._on_value = on_value
        self._on_renewed = on_renewed
        self._on_gone = on_gone
        self._look_every = look_every
        self._receptions: dict[str, Reception[M]] = {}
        self.looked = asyncio.Event()  # the whole bucket has been read once

    async def run(self) -> None:
        """Read for ever."""
        heard = (self._bucket.heard("*"),)
        await following.follow(self._bus, heard, self._look, self._take, self._look_every)

    def _take(self, message: Message) -> None:
        token = _token(message)
        if token in ("", table.STORE_KEY):
            return
        if token not in self._receptions:
            self._receptions[token] = self._reception(token)
        self._receptions[token].take(message)

    def _reception(self, token: str) -> Reception[M]:
        node = table.node_of_token(token)
        on_value = functools.partial(self._on_value, node)
        on_renewed = functools.partial(self._on_renewed, node) if self._on_renewed else None
        on_gone = functools.partial(self._on_gone, node) if self._on_gone else None
        return Reception(self._bucket, token, on_value, on_renewed, on_gone)

    async def _look(self, session: Session) -> None:
        seen: set[str] = set()
        async for message in session.read(self._bucket.stream, self._bucket.key("*")):
            seen.add(_token(message))
            self._take(message)
        self._forget_but(seen)
        self.looked.set()

    def _forget_but(self, seen: Container[str]) -> None:
        """Let go of nodes that were buried, once their tombstones have gone as well."""
        over = [
            token
            for token, reception in self._receptions.items()
            if token not in seen and not reception.stands
        ]
        for token in over:
            del self._receptions[token]


class FleetWriter(Generic[M]):
    """Keeps the last value that was put for each node standing."""

    def __init__(
        self, bus: Bus, bucket: Bucket, look_every: float = following.LOOK_EVERY_S
    ) -> None:
        self._bus = bus
        self._bucket = bucket
        self._keeper = Keeper(bus, bucket)
        self._look_every = look_every

    def put(self, node: str, message: M, traceparent: str = "") -> None:
        """Let `message` stand for a node; what was put before and not yet sent is forgotten."""
        self._keeper.want(table.node_token(node), message, traceparent)

    def forget(self, node: str) -> None:
        """Let go of what was put for a node: whatever stands there from now on is not ours."""
        self._keeper.forget(table.node_token(node))

    async def run(self) -> None:
        """Write for ever."""
        heard = (self._bucket.heard("*"),)
        async with asyncio.TaskGroup() as tasks:
            name = f"{self._bucket.name} writer"
            tasks.create_task(self._keeper.run(), name=name)
            tasks.create_task(
                following.follow(self._bus, heard, self._look, self._keeper.take, self._look_every),
                name=f"{name} listening",
            )

    async def _look(self, session: Session) -> None:
        self._keeper.look_begins()
        seen: set[str] = set()
        async for message in session.read(self._bucket.stream, self._bucket.key("*")):
            seen.add(_token(message))
            self._keeper.take(message)
        self._keeper.looked_at_all(seen)
