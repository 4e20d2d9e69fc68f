"""The one write path: wanted values → stored values, only while connected, the latest wins.

`StateWriter` and `FleetWriter` feed it with what they hear and see under their keys.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from shared.bus import errors, freshness
from shared.bus.connection import Bus
from shared.bus.session import Message, Session
from shared.bus.upkeep import Upkeep
from shared.contract import table
from shared.contract.table import Bucket
from shared.runtime import backoff, clock

log = logging.getLogger(__name__)
DISPLACED_S = 1.0
AT_ONCE = 64  # values in flight; a fleet's worth in a second, and no flood


class Keeper:
    """Keeps every wanted value of one bucket standing."""

    def __init__(self, bus: Bus, bucket: Bucket) -> None:
        self._bus = bus
        self._bucket = bucket
        self._upkeep = Upkeep(bucket)
        self._wake = asyncio.Event()
        self._displaced = False
        self._waits = backoff.Backoff()

    def want(self, token: str, message: Any, traceparent: str) -> None:
        """Let a message stand under a key."""
        self._upkeep.want(token, message, traceparent)
        self._wake.set()

    def forget(self, token: str) -> None:
        """Want nothing under a key any more."""
        self._upkeep.forget(token)

    def renew(self, token: str) -> None:
        """Store what stands under a key once more."""
        self._upkeep.renew(token)
        self._wake.set()

    def look_begins(self) -> None:
        """A look at the bucket begins: what was refused before it may be tried once more."""
        self._upkeep.forgive()

    def take(self, message: Message) -> None:
        """Something was stored in the bucket: note what now stands there."""
        token = message.headers.get(freshness.SUBJECT, "").rpartition(".")[2]
        self.looked(token, message)

    def looked(self, token: str, message: Message | None) -> None:
        """Note what a look at a key showed: a stored value, or None for nothing."""
        if message is None:
            self._upkeep.see_nothing(token)
        elif (sequence := self._sequence(token, message)) is not None:
            if token == table.STORE_KEY:
                self._upkeep.learn_store(read_store(message.data))
            elif self._upkeep.see(token, sequence, message.data):
                self._displaced = True
                log.warning("%s holds another writer's value: ours again", self._bucket.key(token))
        if self._upkeep.due():
            self._wake.set()

    def looked_at_all(self, seen: set[str]) -> None:
        """Note that a look at the whole bucket showed these keys and no others."""
        for token in set(self._upkeep.tokens()) - seen:
            self.looked(token, None)

    async def run(self) -> None:
        """Write what is due, for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._yield_to_others()
            session = await self._bus.session()
            due = self._upkeep.due()
            try:
                for start in range(0, len(due), AT_ONCE):
                    await self._put_all(session, due[start : start + AT_ONCE])
            except* errors.BusError as group:
                log.debug("%s: %s", self._bucket.name, group.exceptions[0])
            await self._rest()

    async def _rest(self) -> None:
        """Wait a little if something is still due: the stream is away, or did not answer."""
        if self._upkeep.due():
            self._wake.set()
            await clock.sleep(self._waits.next())
        else:
            self._waits.reset()

    async def _yield_to_others(self) -> None:
        """Wait before taking a key back, so that two writers by mistake are no storm."""
        if self._displaced:
            self._displaced = False
            await clock.sleep(DISPLACED_S)

    async def _put_all(self, session: Session, tokens: tuple[str, ...]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for token in tokens:
                tasks.create_task(self._put(session, token), name=f"put {self._bucket.name}")

    async def _put(self, session: Session, token: str) -> None:
        if not self._upkeep.wants(token):  # forgotten since it was found to be due
            return
        outgoing = self._upkeep.outgoing(token)
        try:
            sequence = await session.store(outgoing.subject, outgoing.data, outgoing.headers)
        except errors.RejectedError as error:
            self._refuse(token, outgoing.data, str(error))
        else:
            self._upkeep.see(token, sequence, outgoing.data)

    def _refuse(self, token: str, data: bytes, reason: str) -> None:
        self._upkeep.see_refused(token, data)
        log.error(
            "the %s of node %s (%d bytes) was not written: %s; its former value goes on standing",
            self._bucket.name,
            table.node_of_token(token),
            len(data),
            reason,
        )

    def _sequence(self, token: str, message: Message) -> int | None:
        return freshness.stored_sequence(message.headers, self._bucket, token)


def read_store(data: bytes) -> int:
    """The store in a `_store` value, 0 if it cannot be read."""
    return freshness.number(data.decode("ascii", "replace")) or 0
