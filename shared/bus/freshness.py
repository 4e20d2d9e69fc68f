"""What a reader has, and what comes in: apply it or not. Pure; readers call `Reading.offer`.

Messages may be lost, late, doubled, or come from a store that was made anew; direct gets may lag;
and anybody's storage answer may be sent to our subject. A value counts if the server says that it
was stored under our key, and if it is of a greater store, or of a higher sequence in the same one.
A tombstone is ordered like a value: it takes away what is older, and a newer value stands again.
"""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from shared.contract import codec, table
from shared.contract.table import Bucket

M = TypeVar("M")
_DIGITS = re.compile("[0-9]{1,20}")
STREAM, SUBJECT, SEQUENCE = "Nats-Stream", "Nats-Subject", "Nats-Sequence"


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """How new a value is. `store` is the creation time of the bucket it was written to."""

    store: int = 0
    sequence: int = 0


class Verdict(enum.Enum):
    """What became of a message."""

    APPLIED = "applied"
    RENEWED = "renewed"  # stored anew as it was: its writer lives, and nothing else is new
    OLDER = "older"  # or the same again
    FOREIGN = "foreign"  # not stored under our key
    EMPTY = "empty"  # a tombstone: the node has been absent for long
    UNREADABLE = "unreadable"


def stored_sequence(headers: Mapping[str, str], bucket: Bucket, token: str) -> int | None:
    """The sequence under which the server stored this as our key's value, None if it did not."""
    own = headers.get(STREAM) == bucket.stream and headers.get(SUBJECT) == bucket.key(token)
    return number(headers.get(SEQUENCE, "")) if own else None


def number(text: str) -> int | None:
    """A sequence or a store, as the server and we write it; None for anything else.

    A tombstone's store is in a header, which any writer of a key may set to anything.
    """
    return int(text) if _DIGITS.fullmatch(text) else None


class Reading(Generic[M]):
    """The newest value of one key. `problem` says why the last message could not be read."""

    def __init__(self, bucket: Bucket, token: str) -> None:
        self.mark = Mark()
        self.value: M | None = None
        self.problem = ""
        self._bucket = bucket
        self._token = token
        self._digest = b""  # of the value's bytes

    def offer(self, headers: Mapping[str, str], data: bytes) -> Verdict:
        """Take a message if it is ours, readable and newer; else keep what there is."""
        sequence = stored_sequence(headers, self._bucket, self._token)
        if sequence is None:
            return Verdict.FOREIGN
        if not data:
            return self._bury(headers.get(table.STORE_HEADER, ""), sequence)
        digest = hashlib.blake2b(data, digest_size=16).digest()
        if digest == self._digest:
            return self._renew(sequence)
        try:
            value = self._decode(data)
        except codec.UnreadableError as error:
            self.problem = str(error)
            return Verdict.UNREADABLE
        mark = Mark(value.stamp.store, sequence)
        if mark <= self.mark:
            return Verdict.OLDER
        self.mark, self.value, self.problem, self._digest = mark, value, "", digest
        return Verdict.APPLIED

    def _renew(self, sequence: int) -> Verdict:
        if sequence <= self.mark.sequence:
            return Verdict.OLDER
        self.mark = Mark(self.mark.store, sequence)
        return Verdict.RENEWED

    def _bury(self, written: str, sequence: int) -> Verdict:
        store = number(written)
        if store is None:
            self.problem = f"an empty value without {table.STORE_HEADER}"
            return Verdict.UNREADABLE
        mark = Mark(store, sequence)
        if mark <= self.mark:
            return Verdict.OLDER
        self.mark, self.value, self.problem, self._digest = mark, None, "", b""
        return Verdict.EMPTY

    def _decode(self, data: bytes) -> Any:
        value = codec.decode(self._bucket.message, data)
        if table.node_token(value.stamp.node) != self._token:
            raise codec.UnreadableError(
                f"{self._bucket.key(self._token)} holds a value about node {value.stamp.node!r}"
            )
        return value
