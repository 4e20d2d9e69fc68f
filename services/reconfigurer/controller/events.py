"""Posts Events: bounded, rate-limited per object, repetitions counted. `app` runs one `Events`.

An Event is a courtesy to people: whatever goes wrong with one is logged and never holds up or
ends the controller's work.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from typing import NoReturn

from services.reconfigurer.controller import kube, saying
from shared.runtime import clock

log = logging.getLogger(__name__)

WAITING = 1000  # Events in the queue; what comes on top is dropped and counted in the log
BURST = 25  # an object may get this many at once...
REFILL_S = 30.0  # ...and then one each so many seconds
OBJECTS = 10_000  # whose rates are remembered


class Rate:
    """A token bucket per object, so that one flapping node cannot flood the API server."""

    def __init__(self) -> None:
        self._buckets: dict[saying.About, tuple[float, float]] = {}  # tokens left, at what time

    def allows(self, about: saying.About, now: float) -> bool:
        """Whether one more Event about this object may be posted now."""
        tokens, at = self._buckets.pop(about, (float(BURST), now))
        tokens = min(float(BURST), tokens + (now - at) / REFILL_S)
        allowed = tokens >= 1
        self._buckets[about] = (tokens - allowed, now)
        if len(self._buckets) > OBJECTS:
            del self._buckets[next(iter(self._buckets))]  # the one that was quiet longest
        return allowed


class Events:
    """A queue of things to say and the loop that says them."""

    def __init__(self, api: kube.Kube, instance: str) -> None:
        self._api = api
        self._instance = instance
        self._queue: asyncio.Queue[saying.Say] = asyncio.Queue(WAITING)
        self._rate = Rate()

    def say(self, say: saying.Say) -> None:
        """Queue one; never waits."""
        if not self._rate.allows(say.about, clock.loop_time()):
            log.warning("too many Events about %s; not said: %s", say.about.name, say.message)
            return
        try:
            self._queue.put_nowait(say)
        except asyncio.QueueFull:
            log.warning("the API server is slow; Event not said: %s", say.message)

    async def run(self) -> NoReturn:
        """Post what is queued, in order, until cancelled."""
        while True:
            say = await self._queue.get()
            try:
                await self._post(say)
            except kube.KubeError as error:
                log.warning("Event %s about %s not posted: %s", say.reason, say.about.name, error)

    async def _post(self, say: saying.Say) -> None:
        if say.about.kind == "Pod" and not say.about.uid:
            say = await self._with_uid(say)
        path = f"/api/v1/namespaces/{say.event_namespace}/events"
        event = saying.event(say, clock.utc(clock.now_ns()), self._instance)
        try:
            await self._api.call("POST", path, body=event)
        except kube.KubeError as error:
            if not error.conflict:
                raise
            if not say.topic:
                await self._count(f"{path}/{say.event_name}", event["lastTimestamp"])

    async def _count(self, path: str, stamp: str) -> None:
        found = await self._api.call("GET", path)
        patch = {"count": int(found.get("count") or 1) + 1, "lastTimestamp": stamp}
        await self._api.call("PATCH", path, body=patch, content=kube.MERGE_PATCH)

    async def _with_uid(self, say: saying.Say) -> saying.Say:
        """`kubectl describe pod` finds Events by the pod's UID, which no node service knows."""
        about = say.about
        path = f"/api/v1/namespaces/{about.namespace}/pods/{about.name}"
        pod = await self._api.call("GET", path, accept=kube.METADATA)
        return dataclasses.replace(
            say, about=dataclasses.replace(about, uid=pod["metadata"]["uid"])
        )
