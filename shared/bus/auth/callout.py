"""A sealed question of the server (may this client in?) → its claims, and our sealed answer. Pure.

The server takes an answer that is not sealed, and anybody who reaches our subject could ask. So
a question counts only if it is sealed and signed by one and the same server, and names us.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shared.bus.auth import jwt
from shared.bus.auth.jwt import Claims, Issuer
from shared.bus.auth.nkeys import Kind
from shared.bus.auth.sealing import Curve
from shared.contract import permissions, table
from shared.contract.table import Role

SUBJECT = "$SYS.REQ.USER.AUTH"
QUEUE = "slicewire-auth"  # each question goes to one of the replicas
SERVER_KEY = "Nats-Server-Xkey"  # header that names who sealed it
AUDIENCE = "nats-authorization-request"
MOST_SUBSCRIPTIONS = 64


class ForgedError(ValueError):
    """A question is not a server's."""


class DeniedError(Exception):
    """The credential is not one that lets in; asking again would bring the same answer."""


class UnsureError(Exception):
    """Nobody can say now whose credential this is: the client has to try again."""


@dataclass(frozen=True, slots=True)
class Question:
    """One client that wants in."""

    user_key: str  # made by the server for this login; the answer names it
    server_id: str
    server_key: str
    expires_s: int
    host: str
    token: str = field(repr=False)  # the credential that it has shown


@dataclass(frozen=True, slots=True)
class Entrant:
    """Whom we let in: a service in a pod on a node."""

    role: Role
    node: str
    pod: str


class Clerk:
    """Reads questions and writes answers with one installation's keys."""

    def __init__(self, issuer: Issuer, curve: Curve) -> None:
        self._issuer = issuer
        self._curve = curve

    def read(self, data: bytes, server_key: str) -> Question:
        """Read a question.

        Raises:
            ForgedError: it is not sealed, or not one server's own.
        """
        try:
            claims = jwt.verify(self._curve.open(data, server_key), Kind.SERVER)
            asked = claims["nats"]
            server, options = asked["server_id"], asked["connect_opts"]
            if (claims["aud"], claims["iss"]) != (AUDIENCE, server["id"]):
                raise ForgedError("it was signed by another than it names, or for another purpose")
            if server.get("xkey") != server_key:
                raise ForgedError("it was sealed by another server than the one that signed it")
            return Question(
                user_key=str(asked["user_nkey"]),
                server_id=str(server["id"]),
                server_key=server_key,
                expires_s=int(claims.get("exp", 0)),
                host=str(asked.get("client_info", {}).get("host", "")),
                token=str(options.get("auth_token") or options.get("pass") or ""),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ForgedError(f"a question on {SUBJECT} is not a server's: {error}") from error

    def admit(self, question: Question, entrant: Entrant, now_s: int, life_s: int) -> bytes:
        """Answer: let it in for that long, with what the table allows its role on its node."""
        allowed = permissions.permissions(entrant.role, entrant.node)
        user: Claims = {
            "sub": question.user_key,
            "aud": str(permissions.account(entrant.role)),
            "name": f"{entrant.role}/{entrant.node}/{entrant.pod}",
            "exp": now_s + life_s,
            "nats": {
                "type": "user",
                "version": 2,
                "pub": {"allow": list(allowed.publish)},
                "sub": {"allow": list(allowed.subscribe)},
                "subs": MOST_SUBSCRIPTIONS,
                "data": -1,
                "payload": table.MAX_PAYLOAD_BYTES,
                "allowed_connection_types": ["STANDARD"],
            },
        }
        return self._answer(question, {"jwt": self._issuer.sign(user, now_s)}, now_s)

    def refuse(self, question: Question, reason: str, now_s: int) -> bytes:
        """Answer: keep it out; the server writes the reason into its log."""
        return self._answer(question, {"error": reason}, now_s)

    def _answer(self, question: Question, verdict: dict[str, Any], now_s: int) -> bytes:
        claims = {
            "sub": question.user_key,
            "aud": question.server_id,
            "nats": {"type": "authorization_response", "version": 2, **verdict},
        }
        signed = self._issuer.sign(claims, now_s).encode()
        return self._curve.seal(signed, question.server_key)
