"""What should stand under our keys and what does stand there: which keys are due. Pure.

`shared.bus.writing` asks it after everything that happens. A key is due when the newest value that
was wanted is not what the store holds: never written, displaced, or lost with the store.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from shared.contract import codec
from shared.contract.table import Bucket


@dataclass(slots=True)
class _Key:
    message: Any
    traceparent: str
    data: bytes = b""  # as written to the store of now; empty until it is known
    sequence: int = 0
    stands: bool = False
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One value as it goes out."""

    subject: str
    data: bytes
    headers: dict[str, str] = field(default_factory=dict)


class Upkeep:
    """Wanted and standing values of one writer in one bucket, by subject token."""

    def __init__(self, bucket: Bucket) -> None:
        self.store = 0
        self._bucket = bucket
        self._keys: dict[str, _Key] = {}

    def want(self, token: str, message: Any, traceparent: str) -> None:
        """Replace what should stand under a key; what stands already is not written again."""
        before = self._keys.get(token)
        key = _Key(message, traceparent, sequence=before.sequence if before else 0)
        self._keys[token] = key
        self._encode(key)
        key.stands = before is not None and before.stands and before.data == key.data

    def forget(self, token: str) -> None:
        """Want nothing under a key any more, and mind nothing that stands there."""
        self._keys.pop(token, None)

    def renew(self, token: str) -> None:
        """Let what stands be due once more, for its age to say that we live."""
        if token in self._keys:
            self._keys[token].stands = False

    def learn_store(self, store: int) -> None:
        """The bucket is that one; of two, the greater is the newer. A new one holds nothing."""
        if store <= self.store:
            return
        self.store = store
        for key in self._keys.values():
            key.sequence, key.stands = 0, False
            self._encode(key)

    def see(self, token: str, sequence: int, data: bytes) -> bool:
        """The store holds `data` under a key, since `sequence`; True if that displaced ours."""
        key = self._keys.get(token)
        if key is None or sequence < key.sequence:
            return False
        displaced = key.stands and data != key.data
        key.sequence, key.stands = sequence, data == key.data
        return displaced

    def see_nothing(self, token: str) -> None:
        """The store holds nothing under a key."""
        if token in self._keys:
            self._keys[token].stands = False

    def see_refused(self, token: str, data: bytes) -> None:
        """The store will not take this value: it is not due until `forgive`, or another one."""
        key = self._keys.get(token)
        if key is not None and key.data == data:
            key.refused = True

    def forgive(self) -> None:
        """Let what was refused be due again: a full disk is not full for ever."""
        for key in self._keys.values():
            key.refused = False

    def tokens(self) -> tuple[str, ...]:
        """All keys under which something should stand."""
        return tuple(self._keys)

    def due(self) -> tuple[str, ...]:
        """Keys whose wanted value does not stand, as far as we know. None before a store."""
        if not self.store:
            return ()
        return tuple(
            token for token, key in self._keys.items() if not key.stands and not key.refused
        )

    def wants(self, token: str) -> bool:
        """Whether something should stand under a key."""
        return token in self._keys

    def outgoing(self, token: str) -> Outgoing:
        """The wanted value of a key as it goes out to the store of now."""
        key = self._keys[token]
        headers = {"traceparent": key.traceparent} if key.traceparent else {}
        return Outgoing(self._bucket.key(token), key.data, headers)

    def _encode(self, key: _Key) -> None:
        if self.store:
            stamp = dataclasses.replace(key.message.stamp, store=self.store)
            key.data = codec.encode(dataclasses.replace(key.message, stamp=stamp))
