"""Posts Events: bounded, rate-limited per object, repetitions counted. `app` runs one `Events`.

An Event is a courtesy to people: whatever goes wrong with one is logged and never holds up or
ends the controller's work. While the API server is away or in trouble Events wait, for some time:
whoever says one counts it as said, and nobody says it again.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from dataclasses import dataclass
from typing import NoReturn

from services.reconfigurer.controller import kube, saying
from shared.runtime import backoff, clock

log = logging.getLogger(__name__)

WAITING = 1000  # Events in the queue; what comes on top is dropped and counted in the log
BURST = 25  # an object may get this many at once...
REFILL_S = 30.0  # ...and then one each so many seconds
OBJECTS = 10_000  # whose rates are remembered
GIVE_UP_S = 600.0  # what could not be posted for so long helps nobody any more


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


@dataclass(frozen=True, slots=True)
class _Said:
    """One thing to say, since when, and whether a try to post it has failed."""

    say: saying.Say
    stamp: str
    until: float  # given up then, by the loop's time
    again: bool = False


class Events:
    """A queue of things to say and the loop that says them."""

    def __init__(self, api: kube.Kube, instance: str) -> None:
        self._api = api
        self._instance = instance
        self._queue: asyncio.Queue[_Said] = asyncio.Queue(WAITING)
        self._rate = Rate()

    def say(self, say: saying.Say) -> None:
        """Queue one; never waits."""
        now = clock.loop_time()
        if not self._rate.allows(say.about, now):
            log.warning("too many Events about %s; not said: %s", say.about.name, say.message)
            return
        self._put(_Said(say, clock.utc(clock.now_ns()), now + GIVE_UP_S))

    def _put(self, said: _Said) -> None:
        try:
            self._queue.put_nowait(said)
        except asyncio.QueueFull:
            log.warning("the API server is slow; Event not said: %s", said.say.message)

    async def run(self) -> NoReturn:
        """Post what is queued until cancelled; what fails for now goes behind the others.

        So one Event that the server cannot take, say because of a webhook, holds no other up.
        """
        waits = backoff.Backoff()
        while True:
            said = await self._queue.get()
            try:
                await self._post(said)
                waits.reset()
            except kube.KubeError as error:
                if self._keep(said, error):
                    await clock.sleep(max(waits.next(), error.retry_after_s))

    def _keep(self, said: _Said, error: kube.KubeError) -> bool:
        """Queue one again that could not be posted, unless that will not change."""
        say = said.say
        about = say.about.name
        if not _passes(error) or clock.loop_time() >= said.until:
            log.warning("Event %s about %s not posted: %s", say.reason, about, error)
            return False
        level = logging.DEBUG if said.again else logging.WARNING
        words = say.reason, about, error
        log.log(level, "Event %s about %s not posted yet: %s; trying again", *words)
        self._put(dataclasses.replace(said, again=True))
        return True

    async def _post(self, said: _Said) -> None:
        say = said.say
        if say.about.kind == "Pod" and not say.about.uid:
            say = await self._with_uid(say)
        path = f"/api/v1/namespaces/{say.event_namespace}/events"
        event = saying.event(say, said.stamp, self._instance)
        try:
            await self._api.call("POST", path, body=event)
        except kube.KubeError as error:
            if not error.conflict:
                raise
            if not say.topic:
                await self._count(f"{path}/{say.event_name}", said)

    async def _count(self, path: str, said: _Said) -> None:
        found = await self._api.call("GET", path)
        if said.again and _second(found.get("lastTimestamp")) == _second(said.stamp):
            return  # it was posted before, and the answer was lost
        patch = {"count": int(found.get("count") or 1) + 1, "lastTimestamp": said.stamp}
        await self._api.call("PATCH", path, body=patch, content=kube.MERGE_PATCH)

    async def _with_uid(self, say: saying.Say) -> saying.Say:
        """`kubectl describe pod` finds Events by the pod's UID, which no node service knows."""
        about = say.about
        path = kube.pod_path(about.namespace, about.name)
        pod = await self._api.call("GET", path, accept=kube.METADATA)
        return dataclasses.replace(
            say, about=dataclasses.replace(about, uid=pod["metadata"]["uid"])
        )


def _passes(error: kube.KubeError) -> bool:
    """Whether the API server was away, in trouble or busy: it may take the same Event later."""
    return not error.status or error.status >= 500 or error.later


def _second(stamp: str | None) -> str:
    """The time to the second, which is all that an Event keeps of it."""
    return (stamp or "")[: len("2026-01-01T00:00:00")]
