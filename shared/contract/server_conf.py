"""The nats-server's configuration for static users, as text.

NATS reads JSON as its own format, so what is written here needs no escaping rules of ours. The
stand-in broker starts a server from it; where a chart brings its own NATS, the accounts are the
same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from shared.contract import permissions, table
from shared.contract.permissions import Account
from shared.contract.table import Role

AUTH_TIMEOUT_S = 1.9  # below the server's first PING, which clients take for the verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """One user with a password; `node` is empty for the controller and the command."""

    role: Role
    node: str = ""
    password: str = field(repr=False)

    @property
    def name(self) -> str:
        """The name to log in with."""
        return permissions.user_name(self.role, self.node)


def configuration(users: Iterable[User], *, host: str, port: int, store_dir: str) -> str:
    """Write the whole file; port -1 lets the server choose one."""
    everyone = tuple(users)
    return json.dumps(
        {
            "host": host,
            "port": port,
            "max_payload": table.MAX_PAYLOAD_BYTES,
            "jetstream": {"store_dir": store_dir},
            "authorization": {"timeout": AUTH_TIMEOUT_S},
            "accounts": {each.value: _account(each, everyone) for each in Account},
        },
        indent=2,
    )


def _account(account: Account, users: tuple[User, ...]) -> dict[str, object]:
    members = [_user(each) for each in users if permissions.account(each.role) is account]
    if account is Account.STREAMS:
        return {"jetstream": "enabled", "users": members, "exports": _exports()}
    return {"users": members, "imports": _imports(account)}


def _user(user: User) -> dict[str, object]:
    allowed = permissions.permissions(user.role, user.node)
    return {
        "user": user.name,
        "password": user.password,
        "permissions": {
            "publish": {"allow": list(allowed.publish)},
            "subscribe": {"allow": list(allowed.subscribe)},
        },
    }


def _exports() -> list[dict[str, object]]:
    written: list[dict[str, object]] = []
    for each in permissions.exports():
        entry: dict[str, object] = {
            "service" if each.service else "stream": each.subject,
            "accounts": [str(account) for account in each.accounts],
        }
        if each.many_answers:
            entry["response_type"] = "Stream"
        written.append(entry)
    return written


def _imports(account: Account) -> list[dict[str, object]]:
    return [
        {
            "service" if each.service else "stream": {
                "account": str(Account.STREAMS),
                "subject": each.subject,
            }
        }
        for each in permissions.exports()
        if account in each.accounts
    ]
