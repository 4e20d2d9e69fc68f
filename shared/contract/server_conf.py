"""The nats-server's configuration as text, in three forms with the same accounts.

`configuration` names static users with passwords: the stand-in broker starts a server from it.
`callout_configuration` leaves the users of nodes to the controller, which the server asks at each
login, and takes public keys from its environment: the chart's NATS runs with it, from the copy in
deploy/chart/files that `make schema` writes. `role_accounts` is for somebody's existing NATS, with
one user for each role on all nodes.

NATS reads JSON as its own format, so what is written here needs no escaping rules of ours; only
variables must stand without quotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from shared.contract import permissions, table
from shared.contract.keys import Key
from shared.contract.permissions import Account
from shared.contract.table import Role

GATE_ACCOUNT = "AUTH"  # the server's questions are heard there, and nothing else
KEY_USERS = {Key.CONTROLLER: Role.CONTROLLER, Key.COMMAND: Role.COMMAND}
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
            **_place(host, port, store_dir),
            "authorization": {"timeout": AUTH_TIMEOUT_S},
            "accounts": {each.value: _account(each, _members(each, everyone)) for each in Account},
        },
        indent=2,
    )


def _members(account: Account, users: tuple[User, ...]) -> list[dict[str, object]]:
    return [_user(each) for each in users if permissions.account(each.role) is account]


def callout_configuration(*, host: str, port: int, store_dir: str) -> str:
    """Write the whole file of a server that asks the controller who may enter."""
    users: dict[Key, dict[str, object]] = {
        key: {"nkey": f"${key.variable}", "permissions": _permissions(role, "")}
        for key, role in KEY_USERS.items()
    }
    gate = {"users": [{"nkey": f"${Key.GATE.variable}"}]}
    accounts: dict[str, object] = {GATE_ACCOUNT: gate}
    for account in Account:
        members = [
            users[key] for key, role in KEY_USERS.items() if permissions.account(role) is account
        ]
        accounts[account.value] = _account(account, members)
    callout = {
        "account": GATE_ACCOUNT,
        "issuer": f"${Key.ISSUER.variable}",
        "xkey": f"${Key.CURVE.variable}",
        "auth_users": [f"${each.variable}" for each in (Key.GATE, *KEY_USERS)],
    }
    text = json.dumps(
        {
            **_place(host, port, store_dir),
            "authorization": {"timeout": AUTH_TIMEOUT_S, "auth_callout": callout},
            "accounts": accounts,
        },
        indent=2,
    )
    return _with_variables(text)


def role_accounts() -> str:
    """Write the accounts for an existing server: a user a role, its password from a variable."""
    accounts = {
        account.value: _account(
            account, [_role_user(role) for role in Role if permissions.account(role) is account]
        )
        for account in Account
    }
    return _with_variables(json.dumps({"accounts": accounts}, indent=2))


def password_variable(role: Role) -> str:
    """The variable that tells an existing server the password of a role's user."""
    return f"SLICEWIRE_{role.upper()}_PASSWORD"


def _role_user(role: Role) -> dict[str, object]:
    return {
        "user": str(role),
        "password": f"${password_variable(role)}",
        "permissions": _permissions(role, permissions.EVERY_NODE),
    }


def _with_variables(text: str) -> str:
    """Take our variables out of quotes, in which NATS would read them as text."""
    return re.sub(r'"(\$SLICEWIRE_[A-Z_]+)"', r"\1", text) + "\n"


def _place(host: str, port: int, store_dir: str) -> dict[str, object]:
    return {
        "host": host,
        "port": port,
        "max_payload": table.MAX_PAYLOAD_BYTES,
        "jetstream": {"store_dir": store_dir},
    }


def _account(account: Account, members: list[dict[str, object]]) -> dict[str, object]:
    if account is Account.STREAMS:
        return {"jetstream": "enabled", "users": members, "exports": _exports()}
    return {"users": members, "imports": _imports(account)}


def _user(user: User) -> dict[str, object]:
    allowed = _permissions(user.role, user.node)
    return {"user": user.name, "password": user.password, "permissions": allowed}


def _permissions(role: Role, node: str) -> Mapping[str, object]:
    allowed = permissions.permissions(role, node)
    return {
        "publish": {"allow": list(allowed.publish)},
        "subscribe": {"allow": list(allowed.subscribe)},
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
