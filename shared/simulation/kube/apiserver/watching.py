"""Changes of the store to the event stream of one watch.

`http` opens a `Watch` a request: first the replay (or the present state), then each change as it
comes, in one write for all that waits, with bookmarks between. Objects that begin to match the
selector arrive as ADDED, those that cease as DELETED.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from shared.runtime import clock
from shared.simulation.kube.apiserver import encoding, forms, refusals
from shared.simulation.kube.apiserver.encoding import Json
from shared.simulation.kube.apiserver.faults import CutWatch, Fault, LagWatch
from shared.simulation.kube.apiserver.forms import Form
from shared.simulation.kube.apiserver.kinds import Kind
from shared.simulation.kube.apiserver.queries import WatchQuery
from shared.simulation.kube.apiserver.refusals import Refused
from shared.simulation.kube.apiserver.selectors import Selector
from shared.simulation.kube.apiserver.store import Change, ChangeType, Feed, Store, Stored

BEFORE_THE_END = 2.0
INITIAL_END = {"k8s.io/initial-events-end": "true"}


@dataclass(frozen=True)
class Lines:
    """Writes what a watch sends, one JSON line an event."""

    kind: Kind
    form: Form
    selector: Selector
    now_ns: Callable[[], int]

    def change(self, change: Change) -> bytes:
        """Return the line of a change as this selector sees it, b"" if it does not."""
        here = change.type is not ChangeType.DELETED and self.selector.matches(change.stored.traits)
        before = change.before is not None and self.selector.matches(change.before)
        if here:
            return self._line("MODIFIED" if before else "ADDED", self._object(change.stored))
        return self._line("DELETED", self._object(change.stored)) if before else b""

    def present(self, stored: Stored) -> bytes:
        """Return the line of an object that was there before the watch."""
        return self._line("ADDED", self._object(stored))

    def bookmark(self, version: int, annotations: dict[str, str] | None = None) -> bytes:
        """Return a bookmark, which holds nothing but kind and resourceVersion."""
        partial = self.form is Form.METADATA
        metadata: Json = {"resourceVersion": str(version), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        mark = {
            "kind": Form.METADATA.value if partial else self.kind.name,
            "apiVersion": "meta.k8s.io/v1" if partial else self.kind.group_version,
            "metadata": metadata,
        }
        return self._line("BOOKMARK", encoding.encode(mark))

    def error(self, refused: Refused) -> bytes:
        """Return the one line of a watch that cannot be served."""
        return self._line("ERROR", encoding.encode(refused.body()))

    def _object(self, stored: Stored) -> bytes:
        return forms.one(self.form, self.kind, stored, self.now_ns())

    @staticmethod
    def _line(event: str, body: bytes) -> bytes:
        return f'{{"type":"{event}","object":'.encode() + body + b"}\n"


class Watch:
    """One open watch over HTTP."""

    def __init__(
        self,
        store: Store,
        lines: Lines,
        query: WatchQuery,
        *,
        lasts: float,
        bookmark_every: float,
        fault: Fault | None,
    ) -> None:
        self._store = store
        self._lines = lines
        self._kind = lines.kind.stored
        self._query = query
        self._lasts = lasts
        self._bookmark_every = bookmark_every
        self._lag = fault.seconds if isinstance(fault, LagWatch) else 0.0
        self._events_left = fault.after_events if isinstance(fault, CutWatch) else None

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Send events until the time is over, the feed is closed or the client is gone."""
        response = web.StreamResponse(
            headers={"Content-Type": forms.JSON_TYPE, "Cache-Control": "no-cache, private"}
        )
        with self._store.feed(self._kind) as feed:  # opened before the first await: no gap
            try:
                opening, reached = self._opening()
            except Refused as refused:
                opening, reached = [self._lines.error(refused)], None
            try:
                await response.prepare(request)
                await self._send(request, response, opening)
                if reached is not None:
                    await self._follow(request, response, feed, reached)
                await response.write_eof()
            except ConnectionResetError:
                return response  # the client is gone, or a fault cut it off
        return response

    def _opening(self) -> tuple[list[bytes], int]:
        """Return the first lines and the resourceVersion they lead up to; 410 if too old."""
        since = self._query.since
        if since is None:
            rows = self._store.rows(self._kind)
            matching = [row for _, row in rows if self._query.selector.matches(row.traits)]
            lines = [self._lines.present(stored) for stored in matching]
            if self._query.marks_initial_end:
                lines.append(self._lines.bookmark(self._store.version, INITIAL_END))
            return lines, self._store.version
        floor = self._store.floor(self._kind)
        if since < floor:
            raise refusals.expired(since, floor)
        lines = [self._lines.change(change) for change in self._store.since(self._kind, since)]
        return lines, max(since, self._store.version)

    async def _follow(
        self, request: web.Request, response: web.StreamResponse, feed: Feed, reached: int
    ) -> None:
        end = clock.loop_time() + self._lasts
        mark_at = clock.loop_time() + min(
            self._bookmark_every, max(1.0, self._lasts - BEFORE_THE_END)
        )
        if not self._query.bookmarks:
            mark_at = end
        while not feed.closed and clock.loop_time() < end:
            await feed.ready(min(end, mark_at))
            if self._lag:
                await clock.sleep(self._lag)
            # a watch from a future resourceVersion stays silent until it is reached
            changes = [each for each in feed.take() if each.stored.version > reached]
            lines = [self._lines.change(change) for change in changes]
            if mark_at <= clock.loop_time() < end:
                mark_at = clock.loop_time() + self._bookmark_every
                if self._store.version >= reached:
                    lines.append(self._lines.bookmark(self._store.version))
            await self._send(request, response, lines)

    async def _send(
        self, request: web.Request, response: web.StreamResponse, lines: list[bytes]
    ) -> None:
        lines = [line for line in lines if line]
        cut = self._events_left is not None and len(lines) >= self._events_left
        if self._events_left is not None:
            lines = lines[: self._events_left]
            self._events_left -= len(lines)
        if lines:
            await response.write(b"".join(lines))
        if cut:
            drop_connection(request)
            raise ConnectionResetError("cut off by a fault")


def drop_connection(request: web.Request) -> None:
    """Cut a client off without a word, as a server that dies does."""
    if request.transport is not None:
        request.transport.abort()
