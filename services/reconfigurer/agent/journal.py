"""The agent's memory on disk. `loop` writes it before it publishes or does what it says."""

from __future__ import annotations

import logging
import pathlib

from services.reconfigurer.agent import memory as memories
from services.reconfigurer.agent.memory import Memory
from shared.contract import codec
from shared.runtime import files

log = logging.getLogger(__name__)


class Journal:
    """One file; a write that has returned survives a crash of this process."""

    def __init__(self, path: pathlib.Path, boot_id: str) -> None:
        self._store = files.Store(path, kind="journal")
        self._boot_id = boot_id

    async def read(self) -> Memory:
        """Return what was known, as this boot may use it; an empty memory if there is none."""
        saved = await self._store.read()
        if saved is None:
            return Memory(boot_id=self._boot_id)
        try:
            found = codec.decode(Memory, saved.payload)
        except codec.UnreadableError as error:
            log.warning("%s: %s; starting from what the hardware shows", self._store.path, error)
            return Memory(boot_id=self._boot_id)
        return memories.resumed(found, self._boot_id)

    async def write(self, memory: Memory) -> None:
        """Keep a memory.

        Raises:
            OSError: the disk refuses; nothing may be done that the memory should know of.
        """
        await self._store.write(codec.encode(memory), self._boot_id)
