"""A user's key at a login: the server sends a text, the owner of the seed signs it."""

from __future__ import annotations

from nacl.signing import SigningKey

from shared.bus.auth import nkeys
from shared.bus.auth.nkeys import Kind


class Signer:
    """Signs with a user's seed."""

    def __init__(self, seed: str) -> None:
        self.public = nkeys.pair(Kind.USER, seed).public
        self._key = SigningKey(nkeys.raw_seed(Kind.USER, seed))

    def sign(self, text: bytes) -> bytes:
        """Return the signature of a text."""
        return self._key.sign(text).signature
