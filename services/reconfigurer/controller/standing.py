"""The bus as the leader keeps it: streams that exist, intents that stand.

Streams may vanish at any moment. Intents that this leader has published are kept standing by its
writer; those that it took over from the leader before, without a reason to publish them anew, are
published here when the store they stood in is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from shared.bus import ensure, errors, fleet
from shared.bus.connection import Bus
from shared.bus.state import Received
from shared.contract import table
from shared.contract.messages import Intent
from shared.contract.table import Bucket
from shared.contract.waiting import Waiting, WaitingPod
from shared.runtime import backoff, clock

log = logging.getLogger(__name__)

LOOK_EVERY_S = 5.0
INTENT, WAITING = table.bucket("intent"), table.bucket("waiting")
Publish = Callable[[str, Intent, str], None]


async def stores(bus: Bus) -> dict[str, int]:
    """Make what is missing on the bus, waiting for the bus if need be; the stores by bucket."""
    waits = backoff.Backoff()
    while True:
        try:
            return await ensure.ensure_streams(bus)
        except errors.BusError as error:
            log.warning("streams cannot be made now: %s; trying again", error)
            await clock.sleep(waits.next())


async def intents(bus: Bus) -> dict[str, Received[Intent]]:
    """All intents that stand on the bus now, by node: what the leader before has wanted."""
    return await _values(bus, INTENT)


async def waiting(bus: Bus) -> tuple[WaitingPod, ...]:
    """The pods that the leader before has told of."""
    told: dict[str, Received[Waiting]] = await _values(bus, WAITING)
    return tuple(pod for received in told.values() for pod in received.value.pods)


async def _values(bus: Bus, bucket: Bucket) -> dict[str, Received[Any]]:
    found: dict[str, Received[Any]] = {}
    reader: fleet.FleetReader[Any] = fleet.FleetReader(
        bus, bucket, found.__setitem__, on_gone=lambda node: found.pop(node, None)
    )
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(reader.run(), name=f"read {bucket.name}")
        await reader.looked.wait()
        reading.cancel()
    return found


class Standing:
    """Keeps streams and inherited intents there for one leader's term."""

    def __init__(
        self, bus: Bus, store: int, inherited: Mapping[str, Received[Intent]], publish: Publish
    ) -> None:
        self._bus = bus
        self._store = store
        self._inherited = dict(inherited)
        self._publish = publish

    def publish(self, node: str, wanted: Intent, traceparent: str) -> None:
        """Publish a new intent; the inherited one has had its day."""
        self._inherited.pop(node, None)
        self._publish(node, wanted, traceparent)

    def forget(self, node: str) -> None:
        """Let go of the intent that was inherited for a node."""
        self._inherited.pop(node, None)

    async def run(self) -> NoReturn:
        """Look on a timer, and at once when the connection is a new one."""
        while True:
            session = await self._bus.session()
            store = (await stores(self._bus))[INTENT.name]
            if store != self._store:
                self._store = store
                log.warning("the bucket %s was lost: every intent is published anew", INTENT.name)
                for node, received in self._inherited.items():
                    self._publish(node, received.value, received.traceparent)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await session.ended.wait()
