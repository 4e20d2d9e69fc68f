"""What exists, and what changed lately: objects, one revision counter, a window of changes a kind.

`objects` writes here, `watching` reads the changes through a `Feed`.
Reading, checking and writing happen without an await in between, so nothing is ever locked.

An object is kept as JSON bytes, its metadata apart from the rest and without kind and apiVersion:
the full and the metadata-only form are then a join of bytes, as is a list. A change keeps only
the traits of the former state, never the former object.
"""

from __future__ import annotations

import asyncio
import bisect
import collections
import enum
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from shared.simulation.kube.apiserver import encoding, kinds
from shared.simulation.kube.apiserver.encoding import Json
from shared.simulation.kube.apiserver.kinds import Kind
from shared.simulation.kube.apiserver.selectors import Traits

Key = tuple[str, str]
"""Namespace ("" for what has none) and name."""
FEED_LIMIT = 10_000


class ChangeType(enum.Enum):
    """What happened to an object, named as in watch events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as it is kept."""

    metadata: bytes
    rest: bytes
    version: int
    traits: Traits

    def tail(self) -> bytes:
        """Return the object's JSON after `{` and, where they are wanted, kind and apiVersion."""
        return b'"metadata":' + self.metadata + self.rest

    def data(self) -> Json:
        """Return the object as a dict of the caller's own, without kind and apiVersion."""
        data: Json = encoding.decode(b"{" + self.tail())
        return data


def seal(kind: Kind, data: Json, version: int) -> Stored:
    """Turn an object's dict into its stored form under this resourceVersion."""
    metadata = {**data["metadata"], "resourceVersion": str(version)}
    hidden = ("kind", "apiVersion", "metadata")
    rest = {key: value for key, value in data.items() if key not in hidden}
    fields = {name: _text(data, path) for name, path in kind.field_paths.items()}
    return Stored(
        metadata=encoding.encode(metadata),
        rest=b"," + encoding.encode(rest)[1:] if rest else b"}",
        version=version,
        traits=Traits(metadata.get("labels") or {}, fields),
    )


def _text(data: Json, path: tuple[str, ...]) -> str:
    value: object = data
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Change:
    """One step of an object: its new (or, deleted, last) state and the traits it had before."""

    type: ChangeType
    stored: Stored
    before: Traits | None


Rows = list[tuple[Key, Stored]]
Changes = list[Change]
Dicts = list[Json]


class Feed:
    """The changes of one kind that one watcher has not taken yet, up to a limit.

    A feed that overflows is closed: its watcher ends, and the client lists anew.
    """

    def __init__(self, limit: int = FEED_LIMIT) -> None:
        self.closed = False
        self._limit = limit
        self._waiting: collections.deque[Change] = collections.deque()
        self._wake = asyncio.Event()

    def push(self, change: Change) -> None:
        """Add a change; called by the store."""
        if len(self._waiting) >= self._limit:
            self.close()
        else:
            self._waiting.append(change)
            self._wake.set()

    def close(self) -> None:
        """End the watch that reads this feed."""
        self.closed = True
        self._wake.set()

    async def ready(self, deadline: float | None = None) -> None:
        """Return when there is something to take, the feed is closed, or at that loop time."""
        try:
            async with asyncio.timeout_at(deadline):
                await self._wake.wait()
        except TimeoutError:
            return

    def take(self) -> Changes:
        """Return and forget all that waits."""
        taken = list(self._waiting)
        self._waiting.clear()
        if not self.closed:
            self._wake.clear()
        return taken


@dataclass
class _Table:
    rows: dict[Key, Stored] = field(default_factory=dict)
    order: list[Key] = field(default_factory=list)
    window: collections.deque[Change] = field(default_factory=collections.deque)
    floor: int = 1
    feeds: set[Feed] = field(default_factory=set)


class Store:
    """All objects of the server, read by kind, by plural for stand-ins, and by change."""

    def __init__(self, window: int) -> None:
        self.version = 1
        self.observers: list[Callable[[Kind, Key, Change], None]] = []
        self._window = window
        self._tables = {kind: _Table() for kind in kinds.STORED}

    def get(self, plural: str, namespace: str, name: str) -> Json | None:
        """Return one object as a dict, or None; the namespace of a node is ""."""
        stored = self.find(kinds.named(plural), (namespace, name))
        return stored.data() if stored else None

    def list(self, plural: str, namespace: str = "") -> Dicts:
        """Return the objects of a kind in order of namespace and name, "" meaning everywhere."""
        rows = self.rows(kinds.named(plural))
        return [stored.data() for key, stored in rows if namespace in {"", key[0]}]

    def find(self, kind: Kind, key: Key) -> Stored | None:
        """Return one object as it is kept."""
        return self._tables[kind].rows.get(key)

    def rows(self, kind: Kind) -> Rows:
        """Return the objects of a kind, ordered, as they are at this moment."""
        table = self._tables[kind]
        return [(key, table.rows[key]) for key in table.order]

    def commit(self, kind: Kind, key: Key, data: Json, change_type: ChangeType) -> Stored:
        """Write an object (or take it away) under the next resourceVersion and tell everyone."""
        self.version += 1
        table = self._tables[kind]
        former = table.rows.get(key)
        stored = seal(kind, data, self.version)
        if change_type is ChangeType.DELETED:
            del table.rows[key]
            del table.order[bisect.bisect_left(table.order, key)]
        else:
            if former is None:
                bisect.insort(table.order, key)
            table.rows[key] = stored
        self._tell(kind, key, Change(change_type, stored, former.traits if former else None))
        return stored

    def _tell(self, kind: Kind, key: Key, change: Change) -> None:
        table = self._tables[kind]
        table.window.append(change)
        while len(table.window) > self._window:
            table.floor = table.window.popleft().stored.version
        for feed in table.feeds:
            feed.push(change)
        for observe in self.observers:
            observe(kind, key, change)

    def floor(self, kind: Kind) -> int:
        """Return the oldest resourceVersion from which a watch of this kind can still resume."""
        return self._tables[kind].floor

    def since(self, kind: Kind, version: int) -> Changes:
        """Return the known changes of a kind after a resourceVersion."""
        return [change for change in self._tables[kind].window if change.stored.version > version]

    @contextmanager
    def feed(self, kind: Kind) -> Iterator[Feed]:
        """Follow the changes of a kind from this moment to the end of the block."""
        feeds = self._tables[kind].feeds
        feed = Feed()
        feeds.add(feed)
        try:
            yield feed
        finally:
            feeds.discard(feed)

    def compact(self) -> None:
        """Forget every change: each older resourceVersion is now too old to resume from."""
        for table in self._tables.values():
            table.window.clear()
            table.floor = self.version

    def close_feeds(self) -> None:
        """End all watches."""
        for table in self._tables.values():
            for feed in table.feeds:
                feed.close()
