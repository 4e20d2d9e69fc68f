"""Two places that tell the inventory, the bus and inventory.json → the newer one.

The advertiser writes the file before it tells the bus, so the file is at least as new, unless it
could not be written; then the bus changes and the file does not. The bus may also still hold what
an advertiser said before the node booted: only the file knows its boot.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pathlib
from collections.abc import Callable
from dataclasses import dataclass

from shared.bus import state as bus_state
from shared.contract import codec
from shared.contract.messages import Inventory
from shared.runtime import files

log = logging.getLogger(__name__)
AWAY_S = 0.3  # between looks at the file while the bus is away: a sick GPU is withdrawn in time
CONNECTED_S = 5.0


@dataclass(frozen=True, slots=True)
class Choice:
    """The inventory in force; `confirmed` if it is known to be of this boot."""

    inventory: Inventory
    confirmed: bool


def choose(file: Choice | None, bus: Inventory | None, *, bus_is_ahead: bool) -> Choice | None:
    """Pick the newer one.

    Args:
        file: what the file holds; `confirmed` if it was written on this boot.
        bus: what the bus told last.
        bus_is_ahead: the bus has told a change while we listened that the file does not have.
    """
    if bus is None:
        return file
    if bus_is_ahead:
        return Choice(bus, confirmed=True)
    if file is not None and file.confirmed:
        return file
    return Choice(bus, confirmed=False)


class Sources:
    """Hands each newer inventory to `take`. `connected` tells whether the bus is there."""

    def __init__(
        self,
        path: pathlib.Path,
        boot_id: str,
        take: Callable[[Inventory, bool], None],
        connected: Callable[[], bool],
    ) -> None:
        self._store = files.Store(path, kind="inventory")
        self._boot_id = boot_id
        self._take = take
        self._connected = connected
        self._saved: files.Saved | None = None
        self._file: Choice | None = None
        self._bus: Inventory | None = None
        self._bus_is_ahead = False
        self._chosen: Choice | None = None
        self._wake = asyncio.Event()
        self._turn = asyncio.Lock()  # an older look must not end after a newer one

    def heard(self, received: bus_state.Received[Inventory]) -> None:
        """Take what the bus tells; the first word may be old, later ones are news."""
        self._bus_is_ahead = self._bus is not None
        self._bus = received.value
        self._wake.set()

    async def look(self) -> None:
        """Read the file, and hand on what is in force if it has changed."""
        async with self._turn:
            await self._read()
            ahead = self._bus_is_ahead and self._connected()
            choice = choose(self._file, self._bus, bus_is_ahead=ahead)
            if choice is not None and choice != self._chosen:
                self._chosen = choice
                self._take(choice.inventory, choice.confirmed)

    async def run(self) -> None:
        """Look at each word of the bus and on a timer, for ever."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CONNECTED_S if self._connected() else AWAY_S):
                    await self._wake.wait()
            self._wake.clear()
            await self.look()

    async def _read(self) -> None:
        saved = await self._store.read()
        if saved is None or saved == self._saved:
            return
        self._saved = saved
        try:
            inventory = codec.decode(Inventory, saved.payload)
        except codec.UnreadableError as error:
            log.warning("%s: %s; it is passed over", self._store.path, error)
            return
        same_boot = saved.boot_id == self._boot_id != "unknown"
        self._file = Choice(inventory, confirmed=same_boot)
        self._bus_is_ahead = False
