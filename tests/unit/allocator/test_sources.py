"""Which of the file and the bus is newer."""

from __future__ import annotations

import dataclasses
import pathlib

from services.allocator import sources
from services.allocator.sources import Choice
from shared.bus.state import Received
from shared.contract import codec, messages
from shared.contract.messages import Inventory
from shared.runtime import files
from tests.support import slots
from tests.support.eventually import eventually
from tests.support.running import running

OLD, NEW, NEWER = (
    slots.inventory(slots.time_sliced(number), slots.named(0, "a")) for number in (2, 3, 4)
)


def test_the_file_of_this_boot_beats_what_the_bus_has_kept() -> None:
    """The bus may still hold what was said before the boot; the file is written first."""
    assert sources.choose(Choice(NEW, True), OLD, bus_is_ahead=False) == Choice(NEW, True)


def test_what_the_bus_tells_while_we_listen_is_newer_than_a_file_that_did_not_change() -> None:
    """An advertiser that cannot write its file is heard all the same."""
    assert sources.choose(Choice(OLD, True), NEW, bus_is_ahead=True) == Choice(NEW, True)


def test_a_file_of_another_boot_gives_way_to_the_bus() -> None:
    """Neither is confirmed: MIG devices wait for the advertiser."""
    assert sources.choose(Choice(OLD, False), NEW, bus_is_ahead=False) == Choice(NEW, False)
    assert sources.choose(Choice(OLD, False), None, bus_is_ahead=False) == Choice(OLD, False)
    assert sources.choose(None, None, bus_is_ahead=False) is None


class Advertiser:
    """Writes the file and tells the bus, as the real one does."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.path = folder / "inventory.json"
        self.taken: list[tuple[Inventory, bool]] = []
        self.connected = True
        self._store = files.Store(self.path, kind="inventory")
        self.sources = sources.Sources(self.path, "boot-1", self._take, lambda: self.connected)

    def _take(self, inventory: Inventory, confirmed: bool) -> None:
        self.taken.append((inventory, confirmed))

    async def write(self, inventory: Inventory, boot_id: str = "boot-1") -> None:
        await self._store.write(codec.encode(inventory), boot_id)

    def tell(self, inventory: Inventory) -> None:
        self.sources.heard(Received(inventory, "", len(self.taken)))


async def test_a_change_is_taken_once_and_at_once(tmp_path: pathlib.Path) -> None:
    """File and bus tell the same change; it is one event."""
    advertiser = Advertiser(tmp_path)
    await advertiser.write(OLD)
    await advertiser.sources.look()
    async with running(advertiser.sources.run()):
        advertiser.tell(OLD)
        await advertiser.write(NEW)
        advertiser.tell(NEW)
        await eventually(lambda: advertiser.taken[-1] == (NEW, True), within=1)
    assert advertiser.taken == [(OLD, True), (NEW, True)]


async def test_while_the_bus_is_away_the_file_is_watched(tmp_path: pathlib.Path) -> None:
    """A sick GPU is withdrawn with the bus away."""
    advertiser = Advertiser(tmp_path)
    advertiser.connected = False
    async with running(advertiser.sources.run()):
        await advertiser.write(OLD)
        await eventually(lambda: advertiser.taken == [(OLD, True)], within=1)
        await advertiser.write(NEW)
        await eventually(lambda: advertiser.taken[-1] == (NEW, True), within=1)


async def test_an_advertiser_that_cannot_write_is_heard_on_the_bus(tmp_path: pathlib.Path) -> None:
    """The first word of the bus may be old; later ones are news."""
    advertiser = Advertiser(tmp_path)
    await advertiser.write(NEW)
    async with running(advertiser.sources.run()):
        advertiser.tell(OLD)
        await eventually(lambda: advertiser.taken == [(NEW, True)], within=1)
        advertiser.tell(NEWER)
        await eventually(lambda: advertiser.taken[-1] == (NEWER, True), within=1)


async def test_a_file_that_cannot_be_read_is_passed_over(tmp_path: pathlib.Path) -> None:
    """What was in force stays in force."""
    advertiser = Advertiser(tmp_path)
    await advertiser.write(OLD)
    await advertiser.sources.look()
    stamp = dataclasses.replace(NEW.stamp, schema=messages.SCHEMA + 1)
    await advertiser.write(dataclasses.replace(NEW, stamp=stamp))
    await advertiser.sources.look()
    assert advertiser.taken == [(OLD, True)]
