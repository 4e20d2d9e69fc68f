"""Small state files that survive crashes: versioned, checksummed, replaced in one step.

bytes → envelope line (kind, version, boot id, SHA-256) + payload → temporary file → rename.
The advertiser's inventory.json and the allocator's checkpoint are such files. There is no fsync:
what a crash of the process leaves is whole, and after a crash of the machine the checksum tells,
while the kubelet's own list says who holds what.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import pathlib
import secrets
from dataclasses import dataclass

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Saved:
    """What a file held: the payload, and the boot on which it was written."""

    payload: bytes
    boot_id: str
    version: int


class Store:
    """One state file. `version` is the newest layout that this code writes and reads."""

    def __init__(self, path: pathlib.Path, *, kind: str, version: int = 1) -> None:
        self.path = path
        self._kind = kind
        self._version = version
        self._turn = asyncio.Lock()  # writes of one file keep their order
        # Not by process id: two containers that hand over to each other may have the same.
        self._temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")

    async def write(self, payload: bytes, boot_id: str) -> None:
        """Replace the file's content; after the return it survives a crash of this process.

        Raises:
            OSError: the folder is missing and cannot be made, or the disk is full.
        """
        async with self._turn:
            await asyncio.to_thread(self._write, payload, boot_id)

    async def read(self) -> Saved | None:
        """Return the content, or None where there is none that can be believed (logged)."""
        return await asyncio.to_thread(self._read)

    def _write(self, payload: bytes, boot_id: str) -> None:
        head = {
            "kind": self._kind,
            "version": self._version,
            "boot_id": boot_id,
            "sha256": hashlib.sha256(payload).hexdigest(),
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._temporary.write_bytes(json.dumps(head).encode() + b"\n" + payload)
            self._temporary.replace(self.path)
        except OSError:
            with contextlib.suppress(OSError):  # half a file helps nobody, least a full disk
                self._temporary.unlink()
            raise

    def _read(self) -> Saved | None:
        try:
            head_line, _, payload = self.path.read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        except OSError as error:
            log.warning("cannot read %s (%s): starting without it", self.path, error)
            return None
        return self._open(head_line, payload)

    def _open(self, head_line: bytes, payload: bytes) -> Saved | None:
        try:
            head = json.loads(head_line)
            saved = Saved(payload, str(head["boot_id"]), int(head["version"]))
            kind, sha256 = head["kind"], head["sha256"]
        except (ValueError, KeyError, TypeError):
            log.warning("%s is damaged (no envelope): starting without it", self.path)
            return None
        if sha256 != hashlib.sha256(payload).hexdigest():
            log.warning("%s is damaged (checksum differs): starting without it", self.path)
            return None
        if kind != self._kind or saved.version > self._version:
            log.warning(
                "%s holds %s version %s, this code reads %s up to %s: starting without it",
                *(self.path, kind, saved.version, self._kind, self._version),
            )
            return None
        return saved
