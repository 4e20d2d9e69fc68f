"""A TokenReview's answer → which role on which node, or why nobody. Pure.

The API server has checked the signature. What is checked here is that the token was made for the
bus, belongs to one of our service accounts, and is bound to a pod on a node: the same account's
other tokens (from `kubectl create token`, or bound to a node only) would name no node, or one that
their owner chose.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.bus.auth import jwt
from shared.bus.auth.callout import DeniedError, Entrant
from shared.contract.table import Role

ACCOUNT = "system:serviceaccount:"
BOUND = "authentication.kubernetes.io/"  # prefix of what a token is bound to
SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose token it is, and when the token ends."""

    entrant: Entrant
    ends_ns: int


@dataclass(frozen=True, slots=True)
class Accounts:
    """Tokens that count: their audience, and the role of each account, by NAMESPACE:NAME."""

    audience: str
    roles: Mapping[str, Role]


def identify(status: Mapping[str, Any], token: str, accounts: Accounts) -> Identity:
    """Read the status of a TokenReview.

    Raises:
        DeniedError: the token lets nobody in.
    """
    if not status.get("authenticated"):
        raise DeniedError(f"the API server does not know the token: {status.get('error') or ''}")
    if accounts.audience not in (status.get("audiences") or ()):
        raise DeniedError(f"the token is not for the audience {accounts.audience}")
    user = status.get("user") or {}
    role = _role(str(user.get("username", "")), accounts)
    extra = user.get("extra") or {}
    node, pod, _uid = (_bound(extra, what) for what in ("node-name", "pod-name", "pod-uid"))
    return Identity(Entrant(role, node, pod), _ends_ns(token))


def _role(name: str, accounts: Accounts) -> Role:
    role = accounts.roles.get(name.removeprefix(ACCOUNT)) if name.startswith(ACCOUNT) else None
    if role is None:
        raise DeniedError(f"{name or 'a user without a name'} has no role on the bus")
    return role


def _bound(extra: Mapping[str, Any], what: str) -> str:
    values = extra.get(BOUND + what) or []
    if len(values) != 1 or not values[0]:
        raise DeniedError(f"the token is not bound to a pod on a node: it has no {what}")
    return str(values[0])


def _ends_ns(token: str) -> int:
    try:
        claims = json.loads(jwt.decode(token.split(".")[1].encode()))
        return int(claims["exp"]) * SECOND_NS
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise DeniedError("the token does not say when it ends") from error
