"""Nodes that the cluster has not had for an hour → forgotten here, buried on the bus.

`term` runs one `Absent`. Without it names that an autoscaler never uses again would stay for ever:
their slots in every total, their services among the silent ones. A node whose advertiser is heard
is not absent, whatever has become of its Node object.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import NoReturn

from services.reconfigurer.controller import fleet
from shared.bus import burying, errors
from shared.bus.connection import Bus
from shared.contract import table
from shared.runtime import clock

log = logging.getLogger(__name__)
LOOK_EVERY_S = 60.0


class Absence:
    """Since when nodes are absent, in ns: no I/O in here."""

    def __init__(self) -> None:
        self._after_ns = int(table.ABSENT_S * 1e9)
        self._since: dict[str, int] = {}

    def over(
        self,
        told_of: Iterable[str],
        present: Container[str],
        heard: Mapping[str, int],
        now_ns: int,
    ) -> Iterator[str]:
        """Say who of those that are told of has been neither present nor heard for too long.

        An absence begins with the first look that sees it, so a leader that is new waits as long
        as any other.
        """
        absent = [name for name in told_of if name not in present]
        self._since = {name: self._since.get(name, now_ns) for name in absent}
        for name, since in self._since.items():
            if max(since, heard.get(name, 0)) + self._after_ns <= now_ns:
                yield name


class Absent:
    """One leader's. `forget` is told of each node before its values are buried."""

    def __init__(self, bus: Bus, fleet_: fleet.Fleet, forget: Callable[[str], None]) -> None:
        self._bus = bus
        self._fleet = fleet_
        self._forget = forget
        self._absence = Absence()
        self._unburied: set[str] = set()  # forgotten, with values that may still stand

    async def run(self) -> NoReturn:
        """Look for ever."""
        await self._fleet.complete()
        while True:
            view = self._fleet
            over = self._absence.over(view.told_of(), view.nodes, view.heard, clock.now_ns())
            for name in sorted(over):
                log.info("node %s has been gone for long: it is forgotten", name)
                self._forget(name)
                self._unburied.add(name)
            await self._bury()
            await clock.sleep(LOOK_EVERY_S)

    async def _bury(self) -> None:
        """Bury those that have not come back meanwhile; what fails is tried at the next look."""
        self._unburied -= self._fleet.nodes.keys()
        for name in sorted(self._unburied):
            try:
                await burying.bury(self._bus, name)
            except errors.BusError as error:
                log.warning("node %s is not buried on the bus: %s; trying again", name, error)
                return
            self._unburied.discard(name)
