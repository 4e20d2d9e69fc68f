"""Messages → bytes for the bus and for files, and back: every message's only edge.

Readers tolerate unknown keys (a newer writer may say more); a message of a newer `schema` than
ours is refused, since its known keys may have changed their meaning. What would not fit the bus,
as the ledger of a node with thousands of held slots, is packed by gzip.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable
from typing import Any, TypeVar

import pydantic

from shared.contract.messages import SCHEMA, Stamp

PACKED_FROM_BYTES = 256 * 1024
MOST_BYTES = 32 * 1024 * 1024  # of a message unpacked
_GZIP = b"\x1f\x8b"
M = TypeVar("M")


class UnreadableError(Exception):
    """A message that cannot be read; the reader keeps what it had and says so."""


_ADAPTERS: dict[type[Any], pydantic.TypeAdapter[Any]] = {}  # built once a process, at first use


def _adapter(kind: type[Any]) -> pydantic.TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = pydantic.TypeAdapter(kind)
    return _ADAPTERS[kind]


def prepare(kinds: Iterable[type[Any]]) -> None:
    """Build the adapters of `kinds`: tens of ms each and a look at the disk, so not in a loop."""
    for kind in kinds:
        _adapter(kind)


def encode(message: Any) -> bytes:
    """Write a message as JSON bytes, a large one packed; equal messages give equal bytes."""
    written = _adapter(type(message)).dump_json(message)
    return written if len(written) < PACKED_FROM_BYTES else gzip.compress(written, mtime=0)


def decode(kind: type[M], data: bytes) -> M:
    """Read JSON bytes, packed or not, as a message of `kind`.

    Raises:
        UnreadableError: not JSON, not of this kind, too large, or of a newer schema than ours.
    """
    try:
        message: M = _adapter(kind).validate_json(_unpacked(kind, data))
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "(the whole text)"
        raise UnreadableError(f"{kind.__name__}: {place}: {first['msg']}") from error
    stamp = getattr(message, "stamp", None)
    if isinstance(stamp, Stamp) and stamp.schema > SCHEMA:
        raise UnreadableError(
            f"{kind.__name__} from {stamp.writer} has schema {stamp.schema}, this version reads up"
            f" to {SCHEMA}: update slicewire on this side"
        )
    return message


def _unpacked(kind: type[object], data: bytes) -> bytes:
    if not data.startswith(_GZIP):
        return data
    unpacking = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)  # 16: with gzip's frame
    try:
        unpacked = unpacking.decompress(data, MOST_BYTES)
    except zlib.error as error:
        raise UnreadableError(f"{kind.__name__}: cannot be unpacked: {error}") from error
    if not unpacking.eof:
        raise UnreadableError(f"{kind.__name__}: cut off, or larger than {MOST_BYTES} bytes")
    return unpacked
