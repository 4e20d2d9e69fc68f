"""List, then watch, for ever: changes of one kind of object → calls of a `Follower`.

Pages on listing, bookmarks, resuming by resourceVersion after a cut, a fresh list when the server
has forgotten that version (410) or refuses it again and again, waits with jitter in between. `app`
runs one of these for all nodes and one for the one ConfigMap, however many nodes there are.
"""

from __future__ import annotations

import contextlib
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, Protocol

from services.reconfigurer.controller import kube
from shared.runtime import backoff, clock
from shared.telemetry import catalogue

log = logging.getLogger(__name__)

PAGE = 500
WATCH_S = 300  # ask the server to end a watch after this long
IDLE_S = 90.0  # bookmarks come about every minute; a quieter connection counts as dead
REFUSALS = 3  # of one version, one after the other: the server may never give it out
SHORT_S = 1.0  # a watch that ends sooner shows a server in trouble: wait before the next one


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """What to follow."""

    says: str  # for logs: "nodes"
    path: str
    field_selector: str = ""
    metadata_only: bool = False

    def query(self, **more: str) -> dict[str, str]:
        """Query parameters of a request to this feed."""
        selector = {"fieldSelector": self.field_selector} if self.field_selector else {}
        return selector | {name: value for name, value in more.items() if value}


class Follower(Protocol):
    """Who is told. Calls are synchronous and quick: note what changed, act elsewhere."""

    def replaced(self, objects: list[kube.Json]) -> None:
        """Take everything that exists now, after a list."""

    def changed(self, found: kube.Json) -> None:
        """Take one object that is new or different."""

    def gone(self, found: kube.Json) -> None:
        """Forget one object: deleted, or out of the selection."""


async def follow(
    api: kube.Kube,
    feed: Feed,
    follower: Follower,
    jitter: Callable[[], float] = random.random,
) -> NoReturn:
    """Keep `follower` up to date until cancelled; no answer of the server ends this."""
    waits = backoff.Backoff(jitter=jitter)
    watcher = _Watcher(api, feed, follower)
    while True:
        began = clock.loop_time()
        try:
            if not watcher.version:
                await watcher.list()
            await watcher.watch(jitter())
        except kube.KubeError as error:
            watcher.fail(error)
            log.warning("watch of %s: %s; trying again", feed.says, error)
            api.meters.count(catalogue.WATCH_RESTARTS, watch=feed.says)
        if clock.loop_time() - began > SHORT_S:
            waits.reset()
        await clock.sleep(waits.next())


class _Watcher:
    """One feed's place: `version` is where to resume, empty for "list first"."""

    def __init__(self, api: kube.Kube, feed: Feed, follower: Follower) -> None:
        self._api = api
        self._feed = feed
        self._follower = follower
        self._refusals = 0  # since the last thing that was heard
        self.version = ""

    def fail(self, error: kube.KubeError) -> None:
        """Decide where to go on: where it was, or with a list if that version is of no use.

        A server that is away or busy has said nothing of the version; whole fleets listed anew
        would not help it.
        """
        self._refusals += bool(error.status) and not error.later
        if error.gone or self._refusals >= REFUSALS:
            self.version = ""
            self._refusals = 0

    async def list(self) -> None:
        """Read all pages and hand them over as one; a list that breaks off counts for nothing."""
        accept = kube.METADATA_LIST if self._feed.metadata_only else kube.PLAIN
        objects: list[kube.Json] = []
        more = ""
        while True:
            query = self._feed.query(limit=str(PAGE), **{"continue": more})
            page = await self._api.call("GET", self._feed.path, query=query, accept=accept)
            objects += page.get("items") or []
            more = page["metadata"].get("continue", "")
            if not more:
                break
        self._follower.replaced(objects)
        self.version = page["metadata"]["resourceVersion"]

    async def watch(self, spread: float) -> None:
        """Hand over changes until the server ends the watch.

        Raises:
            KubeError: cut or refused; `gone` when the version is too old.
        """
        query = self._feed.query(
            watch="true",
            resourceVersion=self.version,
            allowWatchBookmarks="true",
            timeoutSeconds=str(int(WATCH_S * (0.8 + 0.2 * spread))),  # fleets don't return at once
        )
        accept = kube.METADATA if self._feed.metadata_only else kube.PLAIN
        lines = self._api.lines(self._feed.path, query, accept=accept, idle_s=IDLE_S)
        async with contextlib.aclosing(lines):
            async for event in lines:
                self._take(event)

    def _take(self, event: kube.Json) -> None:
        kind, found = event["type"], event["object"]
        if kind == "ERROR":
            raise kube.refusal_of(found)
        if kind == "DELETED":
            self._follower.gone(found)
        elif kind != "BOOKMARK":
            self._follower.changed(found)
        self.version = found["metadata"]["resourceVersion"]
        self._refusals = 0
