"""NATS keys as text: a kind and 32 bytes, with a checksum, in base32; and the ones we make.

A public key says what it belongs to by its first letter (A account, N server, U user, X curve);
a seed begins with S and that letter.
"""

from __future__ import annotations

import base64
import binascii
import enum
import os
from dataclasses import dataclass, field

from nacl.public import PrivateKey
from nacl.signing import SigningKey

_RAW_BYTES = 32
_CHECKSUM_BYTES = 2
_SEED = 18 << 3


class Kind(enum.IntEnum):
    """What a key belongs to; the values are the prefix bytes of public keys."""

    ACCOUNT = 0
    SERVER = 13 << 3
    USER = 20 << 3
    CURVE = 23 << 3


class BadKeyError(ValueError):
    """A text is not the key that is due."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A seed and its public key, as text."""

    seed: str = field(repr=False)
    public: str


def new(kind: Kind) -> Pair:
    """Make a key."""
    raw = os.urandom(_RAW_BYTES)
    return Pair(_seed(kind, raw), public(kind, _public_raw(kind, raw)))


def pair(kind: Kind, seed: str) -> Pair:
    """Find the public key of a seed.

    Raises:
        BadKeyError: the text is no seed of this kind.
    """
    return Pair(seed, public(kind, _public_raw(kind, raw_seed(kind, seed))))


def public(kind: Kind, raw: bytes) -> str:
    """Write a public key."""
    return _text(bytes([kind]) + raw)


def raw_public(kind: Kind, text: str) -> bytes:
    """Read a public key.

    Raises:
        BadKeyError: the text is no public key of this kind.
    """
    read = _bytes(text)
    if len(read) != 1 + _RAW_BYTES or read[0] != kind:
        raise BadKeyError(f"this is no public key of a NATS {kind.name.lower()}")
    return read[1:]


def raw_seed(kind: Kind, text: str) -> bytes:
    """Read a seed.

    Raises:
        BadKeyError: the text is no seed of this kind.
    """
    read = _bytes(text)
    if len(read) != 2 + _RAW_BYTES or read[:2] != _seed_prefix(kind):
        raise BadKeyError(f"this is no seed of a NATS {kind.name.lower()}")
    return read[2:]


def _public_raw(kind: Kind, raw: bytes) -> bytes:
    if kind is Kind.CURVE:
        return bytes(PrivateKey(raw).public_key)
    return bytes(SigningKey(raw).verify_key)


def _seed(kind: Kind, raw: bytes) -> str:
    return _text(_seed_prefix(kind) + raw)


def _seed_prefix(kind: Kind) -> bytes:
    """The marker of a seed takes five bits, so the kind's eight lie across two bytes."""
    return bytes([_SEED | kind >> 5, (kind & 31) << 3])


def _text(raw: bytes) -> str:
    checksum = binascii.crc_hqx(raw, 0).to_bytes(_CHECKSUM_BYTES, "little")
    return base64.b32encode(raw + checksum).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    try:
        read = base64.b32decode(text + "=" * (-len(text) % 8))
    except ValueError as error:
        raise BadKeyError("this is no NATS key: not base32") from error
    raw, checksum = read[:-_CHECKSUM_BYTES], read[-_CHECKSUM_BYTES:]
    if not raw or binascii.crc_hqx(raw, 0) != int.from_bytes(checksum, "little"):
        raise BadKeyError("this is no NATS key: its checksum is wrong")
    return raw
