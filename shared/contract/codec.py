"""Messages → bytes for the bus and for files, and back: every message's only edge.

Readers tolerate unknown keys (a newer writer may say more); a message of a newer `schema` than
ours is refused, since its known keys may have changed their meaning. So is one with a number that
no clock or count gives: it would end whoever makes a time of it. What would not fit the bus, as the
ledger of a node with thousands of held slots, is packed by gzip.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import pydantic
import pydantic_core

from shared.contract import limits
from shared.contract.messages import SCHEMA, Stamp

PACKED_FROM_BYTES = 256 * 1024
MOST_BYTES = 32 * 1024 * 1024  # of a message unpacked
_GZIP = b"\x1f\x8b"
_BOUND = 1 << 63
M = TypeVar("M")


class UnreadableError(Exception):
    """A message that cannot be read; the reader keeps what it had and says so."""


@dataclass(frozen=True, slots=True)
class _Stamped:
    """What messages of all schemas have."""

    stamp: Stamp


@dataclass(frozen=True, slots=True)
class _Form:
    """How messages of one kind are written and read."""

    adapter: pydantic.TypeAdapter[Any]
    validator: pydantic_core.SchemaValidator


_FORMS: dict[type[Any], _Form] = {}  # built once a process, at first use


def _form(kind: type[Any]) -> _Form:
    if kind not in _FORMS:
        adapter = pydantic.TypeAdapter(kind)
        validator = pydantic_core.SchemaValidator(_bounded(adapter.core_schema))
        _FORMS[kind] = _Form(adapter, validator)
    return _FORMS[kind]


def _bounded(schema: Any) -> Any:
    """The same schema with every whole number in 64 bits; values and classes in it stay."""
    if isinstance(schema, list):
        return [_bounded(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inside = {key: _bounded(each) for key, each in schema.items()}
    return inside | {"ge": -_BOUND, "lt": _BOUND} if schema.get("type") == "int" else inside


def prepare(kinds: Iterable[type[Any]]) -> None:
    """Build the adapters of `kinds`: tens of ms each and a look at the disk, so not in a loop."""
    for kind in kinds:
        _form(kind)


def encode(message: Any) -> bytes:
    """Write a message as JSON bytes, a large one packed; equal messages give equal bytes."""
    written = _form(type(message)).adapter.dump_json(message)
    return written if len(written) < PACKED_FROM_BYTES else gzip.compress(written, mtime=0)


def decode(kind: type[M], data: bytes) -> M:
    """Read JSON bytes, packed or not, as a message of `kind`.

    Raises:
        UnreadableError: not JSON, not of this kind, too large, of a newer schema than ours, or of
            hardware that there is not.
    """
    unpacked = _unpacked(kind, data)
    try:
        message: M = _form(kind).validator.validate_json(unpacked)
    except pydantic.ValidationError as error:
        _refuse_newer(kind, _stamp(unpacked))
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "(the whole text)"
        raise UnreadableError(f"{kind.__name__}: {place}: {first['msg']}") from error
    _refuse_newer(kind, getattr(message, "stamp", None))
    if fault := limits.fault(message):
        raise UnreadableError(f"{kind.__name__}: {fault}")
    return message


def _refuse_newer(kind: type[object], stamp: object) -> None:
    if isinstance(stamp, Stamp) and stamp.schema > SCHEMA:
        raise UnreadableError(
            f"{kind.__name__} from {stamp.writer} has schema {stamp.schema}, this version reads up"
            f" to {SCHEMA}: update slicewire on this side"
        )


def _stamp(data: bytes) -> Stamp | None:
    """The stamp of a message that otherwise says things in ways that we do not know."""
    try:
        return cast(_Stamped, _form(_Stamped).validator.validate_json(data)).stamp
    except pydantic.ValidationError:
        return None


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
