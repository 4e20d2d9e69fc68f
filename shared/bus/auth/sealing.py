"""Boxes between the server and us, which nobody else can open or make."""

from __future__ import annotations

import functools
import os

from nacl.exceptions import CryptoError
from nacl.public import Box, PrivateKey, PublicKey

from shared.bus.auth import nkeys
from shared.bus.auth.nkeys import BadKeyError, Kind

VERSION = b"xkv1"
NONCE_BYTES = 24
SERVERS = 64  # that we remember boxes of; a cluster has three


class UnsealedError(ValueError):
    """A message is not sealed by whom it should come from."""


class Curve:
    """Seals and opens with our own curve key."""

    def __init__(self, seed: str) -> None:
        self.public = nkeys.pair(Kind.CURVE, seed).public
        self._key = PrivateKey(nkeys.raw_seed(Kind.CURVE, seed))
        self._box = functools.lru_cache(SERVERS)(self._new_box)

    def seal(self, data: bytes, to: str) -> bytes:
        """Close a box that only the owner of the public key `to` can open."""
        return VERSION + bytes(self._box(to).encrypt(data, os.urandom(NONCE_BYTES)))

    def open(self, data: bytes, sender: str) -> bytes:
        """Open a box that only the owner of the public key `sender` can have closed.

        Raises:
            UnsealedError: it is no box, or somebody else's.
        """
        if not data.startswith(VERSION):
            raise UnsealedError("the message is not sealed")
        try:
            return self._box(sender).decrypt(data[len(VERSION) :])
        except (CryptoError, BadKeyError) as error:
            raise UnsealedError(f"the message is not sealed by {sender!r}: {error}") from error

    def _new_box(self, other: str) -> Box:
        return Box(self._key, PublicKey(nkeys.raw_public(Kind.CURVE, other)))
