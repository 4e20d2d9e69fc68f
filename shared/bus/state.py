"""One node's value in one bucket: read it, or keep it standing.

Services make one `StateReader` for each bucket they read and one `StateWriter` for each they write,
and run both in their task group.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from shared.bus import following, freshness
from shared.bus.connection import Bus
from shared.bus.freshness import Verdict
from shared.bus.session import Message, Session
from shared.bus.writing import Keeper
from shared.contract import table
from shared.contract.table import Bucket
from shared.runtime import clock

log = logging.getLogger(__name__)
M = TypeVar("M")
TRACEPARENT, STORED_AT = "traceparent", "Nats-Time-Stamp"


@dataclass(frozen=True, slots=True)
class Received(Generic[M]):
    """A value that came in, with the trace it belongs to.

    `stored_at` (RFC 3339) is when the server stored it, empty where it did not say.
    """

    value: M
    traceparent: str
    sequence: int
    stored_at: str = ""

    @property
    def stored_ns(self) -> int:
        """When it was stored, in ns since the epoch; now, where the server did not say."""
        if not self.stored_at:
            return clock.now_ns()
        return int(datetime.datetime.fromisoformat(self.stored_at).timestamp() * 1e9)


class Reception(Generic[M]):
    """Messages of one key → values handed on, each newer than the last. For readers only.

    A value that was stored anew as it was goes to `on_renewed` instead, where that is given, and
    `on_gone` is told of a tombstone.
    """

    def __init__(
        self,
        bucket: Bucket,
        token: str,
        on_value: Callable[[Received[M]], None],
        on_renewed: Callable[[Received[M]], None] | None = None,
        on_gone: Callable[[], object] | None = None,
    ) -> None:
        self._reading: freshness.Reading[M] = freshness.Reading(bucket, token)
        self._key = bucket.key(token)
        self._hand_on = {Verdict.APPLIED: on_value, Verdict.RENEWED: on_renewed}
        self._on_gone = on_gone
        self._told = ""

    @property
    def stands(self) -> bool:
        """Whether there is a value."""
        return self._reading.value is not None

    def take(self, message: Message) -> None:
        """Hand the value on if it is newer than the one in force."""
        verdict = self._reading.offer(message.headers, message.data)
        hand_on = self._hand_on.get(verdict)
        if hand_on is not None and self._reading.value is not None:
            traceparent = message.headers.get(TRACEPARENT, "")
            sequence = self._reading.mark.sequence
            stored_at = message.headers.get(STORED_AT, "")
            hand_on(Received(self._reading.value, traceparent, sequence, stored_at))
        elif verdict is Verdict.EMPTY and self._on_gone is not None:
            self._on_gone()
        elif verdict is Verdict.UNREADABLE and self._reading.problem != self._told:
            self._told = self._reading.problem
            log.warning("%s keeps its former value: %s", self._key, self._told)


class StateReader(Generic[M]):
    """Calls `on_value` with each newer value of one node, from the first that stands.

    A tombstone changes nothing for the node itself: whoever reads it there lives.
    """

    def __init__(
        self,
        bus: Bus,
        bucket: Bucket,
        node: str,
        on_value: Callable[[Received[M]], None],
        look_every: float = following.LOOK_EVERY_S,
    ) -> None:
        self._bus = bus
        self._bucket = bucket
        self._token = table.node_token(node)
        self._reception = Reception(bucket, self._token, on_value)
        self._look_every = look_every

    async def run(self) -> None:
        """Read for ever."""
        heard = (self._bucket.heard(self._token),)
        await following.follow(self._bus, heard, self._look, self._reception.take, self._look_every)

    async def _look(self, session: Session) -> None:
        message = await session.get(self._bucket.stream, self._bucket.key(self._token))
        if message is not None:
            self._reception.take(message)


class StateWriter(Generic[M]):
    """Keeps the last value that was put standing under one node's key, and renews it."""

    def __init__(
        self,
        bus: Bus,
        bucket: Bucket,
        node: str,
        look_every: float = following.LOOK_EVERY_S,
        renew_every: float = table.RENEW_EVERY_S,
    ) -> None:
        self._bus = bus
        self._bucket = bucket
        self._token = table.node_token(node)
        self._keeper = Keeper(bus, bucket)
        self._look_every = look_every
        self._renew_every = renew_every

    def put(self, message: M, traceparent: str = "") -> None:
        """Let `message` stand; what was put before and has not been sent is forgotten."""
        self._keeper.want(self._token, message, traceparent)

    async def run(self) -> None:
        """Write for ever."""
        heard = (self._bucket.heard(self._token), self._bucket.heard(table.STORE_KEY))
        async with asyncio.TaskGroup() as tasks:
            name = f"{self._bucket.name} writer"
            tasks.create_task(self._keeper.run(), name=name)
            tasks.create_task(
                following.follow(self._bus, heard, self._look, self._keeper.take, self._look_every),
                name=f"{name} listening",
            )
            if self._bucket.renewed:
                tasks.create_task(self._renew(), name=f"{name} renewing")

    async def _renew(self) -> None:
        while True:
            pause = self._renew_every * random.uniform(0.8, 1.2)  # noqa: S311  # spreads a fleet's
            await clock.sleep(pause)
            self._keeper.renew(self._token)

    async def _look(self, session: Session) -> None:
        self._keeper.look_begins()
        for token in (table.STORE_KEY, self._token):
            message = await session.get(self._bucket.stream, self._bucket.key(token))
            self._keeper.looked(token, message)
