"""Reads what the MPS service of this node says of its daemons, and whether it lives."""

from __future__ import annotations

import asyncio
import logging
import pathlib

from services.advertiser import mps
from shared.contract import codec
from shared.contract import mps as mps_files
from shared.contract.mps import MpsState
from shared.runtime import files, locks

log = logging.getLogger(__name__)


class Reader:
    """The service's file and lock in the run folder."""

    def __init__(self, run_dir: pathlib.Path) -> None:
        self._lock = run_dir / mps_files.LOCK_FILE
        self._store = files.Store(run_dir / mps_files.STATE_FILE, kind=mps_files.STATE_KIND)

    async def read(self) -> mps.Report:
        """Look now. A service that was killed leaves its file and not its lock."""
        serving = await asyncio.to_thread(locks.held, self._lock)
        saved = await self._store.read()
        if saved is None:
            return mps.Report(serving=serving)
        try:
            state = await asyncio.to_thread(codec.decode, MpsState, saved.payload)
        except codec.UnreadableError as error:
            log.warning("%s cannot be read (%s): as if it were not there", self._store.path, error)
            return mps.Report(serving=serving)
        return mps.Report(state, serving)
