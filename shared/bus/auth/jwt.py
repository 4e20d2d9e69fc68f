"""Claims signed with a NATS key: what the server asks with, and what it takes for an answer."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from shared.bus.auth import nkeys
from shared.bus.auth.nkeys import Kind

Claims = dict[str, Any]
ALGORITHM = "ed25519-nkey"


class BadTokenError(ValueError):
    """A text is not a token that its issuer has signed."""


class Issuer:
    """Signs claims with an account's seed."""

    def __init__(self, seed: str) -> None:
        self.public = nkeys.pair(Kind.ACCOUNT, seed).public
        self._key = SigningKey(nkeys.raw_seed(Kind.ACCOUNT, seed))

    def sign(self, claims: Mapping[str, Any], now_s: int) -> str:
        """Add who signs and when, and sign."""
        body = {**claims, "iss": self.public, "iat": now_s, "jti": ""}
        digest = hashlib.sha256(_json(body)).digest()
        body["jti"] = base64.b32encode(digest).decode().rstrip("=")
        text = _HEAD + b"." + encode(_json(body))
        return (text + b"." + encode(self._key.sign(text).signature)).decode()


def verify(token: bytes, kind: Kind) -> Claims:
    """Return the claims of a token that its own `iss`, a key of this kind, has signed.

    Raises:
        BadTokenError: it has not, or this is no token.
    """
    try:
        head, body, signature = token.split(b".")
        claims: Claims = json.loads(decode(body))
        if json.loads(decode(head)).get("alg") != ALGORITHM:
            raise BadTokenError(f"the token is not signed with {ALGORITHM}")
        key = VerifyKey(nkeys.raw_public(kind, claims["iss"]))
        key.verify(head + b"." + body, decode(signature))
    except (ValueError, KeyError, TypeError, AttributeError, BadSignatureError) as error:
        raise BadTokenError(f"the token is not its issuer's: {error}") from error
    return claims


def encode(data: bytes) -> bytes:
    """Base64 as tokens have it: safe in addresses, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def decode(data: bytes) -> bytes:
    """Undo `encode`."""
    return base64.urlsafe_b64decode(data + b"=" * (-len(data) % 4))


def _json(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":"), sort_keys=True).encode()


_HEAD = encode(_json({"typ": "JWT", "alg": ALGORITHM}))
