"""Tells the MPS service in which forms GPUs are held: mps-held.json, written when that changes.

It ends no daemon before this file says, for the newest inventory, that nobody is its client.
"""

from __future__ import annotations

import asyncio
import logging
import pathlib

from shared.contract import codec, mps
from shared.contract.mps import HeldForms
from shared.runtime import files

log = logging.getLogger(__name__)


class HeldFile:
    """The file in the run folder, and what it says."""

    def __init__(self, run_dir: pathlib.Path, boot_id: str) -> None:
        self._store = files.Store(run_dir / mps.HELD_FILE, kind=mps.HELD_KIND)
        self._boot_id = boot_id
        self._written: HeldForms | None = None

    async def tell(self, forms: HeldForms) -> None:
        """Write what is new; a disk that refuses leaves daemons running for longer."""
        if forms == self._written:
            return
        try:
            payload = await asyncio.to_thread(codec.encode, forms)
            await self._store.write(payload, self._boot_id)
        except OSError as error:
            log.warning("cannot write %s (%s): no MPS daemon will end", self._store.path, error)
        else:
            self._written = forms
