"""The two logs: facts and finished spans, written by services, read by commands.

Writers take entries without waiting, keep a bounded number while the bus is away, and count what
they had to drop. Entries carry an id, so sending one twice stores it once. Readers page through the
stream by direct gets; nobody makes a consumer.
"""

from __future__ import annotations

import asyncio
import collections
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from shared.bus import errors
from shared.bus.connection import Bus
from shared.bus.freshness import SUBJECT
from shared.contract import codec, permissions, table
from shared.contract.facts import Fact, FactKind
from shared.contract.spans import SpanRecord, Spans
from shared.contract.table import Log
from shared.runtime import backoff, clock

log = logging.getLogger(__name__)
M = TypeVar("M", Fact, Spans)
FACTS, SPANS = table.log("facts"), table.log("spans")
KEPT_FACTS = 1000
KEPT_SPANS = 5000
BATCH_SPANS = 200
BATCH_S = 0.2  # spans of one change end close together
MESSAGE_ID = "Nats-Msg-Id"  # the stream drops what it has already stored under an id


@dataclass(frozen=True, slots=True)
class _Entry:
    subject: str
    data: bytes
    headers: Mapping[str, str]


class _Outlet:
    """Sends one entry after the other, each until the stream has it or refuses it."""

    def __init__(self, bus: Bus) -> None:
        self.dropped = 0
        self._bus = bus
        self._complaint = ""

    async def send(self, entry: _Entry) -> None:
        waits = backoff.Backoff()
        while True:
            session = await self._bus.session()
            try:
                await session.store(entry.subject, entry.data, entry.headers)
            except errors.RejectedError as error:
                self._drop(str(error))
                return
            except errors.BusError as error:
                log.debug("%s: %s", entry.subject, error)
                await clock.sleep(waits.next())
            else:
                return

    def _drop(self, reason: str) -> None:
        self.dropped += 1
        level = logging.DEBUG if reason == self._complaint else logging.ERROR
        log.log(level, "entries of our logs are refused and dropped: %s", reason)
        self._complaint = reason


class FactWriter:
    """Appends facts, in the order they were published."""

    def __init__(self, bus: Bus, node: str) -> None:
        self._outlet = _Outlet(bus)
        self._place = permissions.place(bus.role, node)
        self._facts: collections.deque[tuple[Fact, str]] = collections.deque(maxlen=KEPT_FACTS)
        self._some = asyncio.Event()

    @property
    def dropped(self) -> int:
        """How many facts were lost: too many while away, or refused."""
        return self._outlet.dropped

    @property
    def waiting(self) -> int:
        """How many facts wait to be sent."""
        return len(self._facts)

    def publish(self, fact: Fact, traceparent: str = "") -> None:
        """Take a fact; while the bus is away the oldest go first."""
        self._outlet.dropped += len(self._facts) == KEPT_FACTS
        self._facts.append((fact, traceparent))
        self._some.set()

    async def run(self) -> None:
        """Send for ever."""
        while True:
            await self._some.wait()
            self._some.clear()
            while self._facts:
                await self._outlet.send(self._entry(*self._facts.popleft()))

    def _entry(self, fact: Fact, traceparent: str) -> _Entry:
        headers = {MESSAGE_ID: fact.id} | ({"traceparent": traceparent} if traceparent else {})
        return _Entry(FACTS.subject(self._place, fact.kind), codec.encode(fact), headers)


class SpanWriter:
    """Appends finished spans in batches, one message for each trace in a batch."""

    def __init__(self, bus: Bus, node: str, service: str) -> None:
        self._outlet = _Outlet(bus)
        self._stamp = bus.stamp(node)
        self._service = service
        self._place = permissions.place(bus.role, node)
        self._spans: collections.deque[SpanRecord] = collections.deque(maxlen=KEPT_SPANS)
        self._some = asyncio.Event()

    @property
    def dropped(self) -> int:
        """How many entries were lost: spans that were too many while away, batches refused."""
        return self._outlet.dropped

    @property
    def waiting(self) -> int:
        """How many spans wait to be sent."""
        return len(self._spans)

    def add(self, span: SpanRecord) -> None:
        """Take a span; while the bus is away the oldest go first."""
        self._outlet.dropped += len(self._spans) == KEPT_SPANS
        self._spans.append(span)
        self._some.set()

    async def run(self) -> None:
        """Send for ever."""
        while True:
            await self._some.wait()
            await clock.sleep(BATCH_S)
            self._some.clear()
            while self._spans:
                count = min(BATCH_SPANS, len(self._spans))
                batch = [self._spans.popleft() for _ in range(count)]
                for trace_id, spans in _by_trace(batch).items():
                    await self._outlet.send(self._entry(trace_id, spans))

    def _entry(self, trace_id: str, spans: tuple[SpanRecord, ...]) -> _Entry:
        message = Spans(stamp=self._stamp, spans=spans)
        headers = {MESSAGE_ID: f"{self._service}-{spans[0].span_id}"}
        return _Entry(SPANS.subject(self._place, trace_id), codec.encode(message), headers)


async def read_spans(bus: Bus, trace_id: str = "*") -> list[SpanRecord]:
    """All spans of one trace, or of all, in the order they were stored.

    A node tells of its own steps only.

    Raises:
        BusError: the bus did not answer.
    """
    subject = SPANS.subject("*", trace_id)
    return [
        span
        async for batch in _entries(bus, SPANS, Spans, subject)
        for span in batch.spans
        if span.node == batch.stamp.node
    ]


async def read_facts(
    bus: Bus, node: str = "", kind: FactKind | None = None, since_ns: int = 0
) -> list[Fact]:
    """All facts, or those that one node's services told, of a kind, stored since a moment.

    Raises:
        BusError: the bus did not answer.
    """
    subject = FACTS.subject(table.node_token(node) or "*", kind or "*")
    return [fact async for fact in _entries(bus, FACTS, Fact, subject, since_ns)]


async def _entries(
    bus: Bus, source: Log, kind: type[M], subject: str, since_ns: int = 0
) -> AsyncIterator[M]:
    """All readable entries on a subject; one that cannot be read hides no other."""
    session = await bus.session()
    async for message in session.read(source.stream, subject, since_ns):
        try:
            entry = codec.decode(kind, message.data)
            _refuse_foreign(entry.stamp.node, message.headers.get(SUBJECT, ""))
        except codec.UnreadableError as error:
            log.warning("skipped an entry of %s: %s", source.name, error)
        else:
            yield entry


def _refuse_foreign(node: str, subject: str) -> None:
    """The server lets a node's services write in its own place only; what they say may be more.

    Raises:
        UnreadableError: the entry is about another node than the one that wrote it.
    """
    place = subject.partition(".")[2].partition(".")[0]
    if place not in (table.CONTROLLER_PLACE, table.node_token(node)):
        raise codec.UnreadableError(f"{subject} holds an entry about node {node!r}")


def _by_trace(spans: Iterable[SpanRecord]) -> dict[str, tuple[SpanRecord, ...]]:
    traces: dict[str, list[SpanRecord]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(span)
    return {trace_id: tuple(group) for trace_id, group in traces.items()}
