"""The inventory on this node's disks: a file for the services beside, and a copy for the next boot.

`loop` reads one of them at its start, and writes each inventory before the bus is told. The file
stands in /run, which a boot empties; by the copy a node that boots while the bus is away offers
what it offered last.
"""

from __future__ import annotations

import asyncio
import logging
from typing import NoReturn

from services.advertiser import inventory
from shared.contract.codec import UnreadableError, decode, encode
from shared.contract.messages import Inventory
from shared.runtime import backoff, clock, files

log = logging.getLogger(__name__)


class Record:
    """What was published last, where it outlives this process."""

    def __init__(self, file: files.Store, copy: files.Store, boot_id: str) -> None:
        self._file = file
        self._copy = copy
        self._boot_id = boot_id
        self._newest = b""
        self._is_due = asyncio.Event()
        self._complaints: dict[files.Store, str] = {}

    async def read(self) -> inventory.State:
        """Start from the file; from the copy where there is none that can be read."""
        for store in (self._file, self._copy):
            saved = await store.read()
            if saved is None:
                continue
            try:
                former = decode(Inventory, saved.payload)
            except UnreadableError as error:
                log.warning("%s cannot be read (%s): starting without it", store.path, error)
                continue
            return inventory.restored(former, same_boot=saved.boot_id == self._boot_id)
        return inventory.restored(None, same_boot=False)

    async def write(self, content: Inventory) -> None:
        """Replace the file; the copy follows."""
        self._newest = encode(content)
        await self._replace(self._file)
        self._is_due.set()

    async def run(self) -> NoReturn:
        """Keep the copy equal to what was written last; a disk that hangs keeps nobody waiting."""
        waits = backoff.Backoff()
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            if await self._replace(self._copy):
                waits.reset()
            else:
                await clock.sleep(waits.next())
                self._is_due.set()

    async def _replace(self, store: files.Store) -> bool:
        try:
            await store.write(self._newest, self._boot_id)
        except OSError as error:
            if self._complaints.get(store) != str(error):
                log.error("cannot write %s (%s): a restart would forget", store.path, error)
            self._complaints[store] = str(error)
            return False
        self._complaints.pop(store, None)
        return True
