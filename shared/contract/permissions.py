"""Who may say and hear what on the bus: the table, turned into accounts and permissions.

The server answers a publish or a direct get on any reply subject that the client names, with the
server's own rights. Permissions cannot forbid that, so whoever is not trusted with the streams
stands in an account without them: node services in `NODE`, people's commands in `VIEW`. Both import
no more than they need, so that an answer sent astray ends in their own account.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from shared.contract import table
from shared.contract.table import Role

EVERY_NODE = "*"  # in place of a node's name: what one user of a role for all nodes needs
DIRECT_GET = "$JS.API.DIRECT.GET"
LOGIN_LIFE_S = 2 * 3600  # of a node service that showed a token; it renews from half of it on


class Account(enum.StrEnum):
    """NATS accounts; the values are their names on the server."""

    STREAMS = "SW"  # the streams and the controller
    NODES = "NODE"
    VIEWERS = "VIEW"


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """Subjects that one user may publish and subscribe to; everything else is denied."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """A subject that `Account.STREAMS` opens to other accounts; a service takes publishes."""

    subject: str
    accounts: tuple[Account, ...]
    service: bool
    many_answers: bool = False


def account(role: Role) -> Account:
    """The account that a role's users stand in."""
    if role in table.NODE_ROLES:
        return Account.NODES
    return Account.STREAMS if role is Role.CONTROLLER else Account.VIEWERS


def place(role: Role, node: str) -> str:
    """The token that stands for a speaker in subjects: its node's, or the controller's."""
    return table.node_token(node) if role in table.NODE_ROLES else table.CONTROLLER_PLACE


def user_name(role: Role, node: str) -> str:
    """Name of the user that a role has: one a node for node services, one for all others."""
    return f"{role}_{table.node_token(node)}" if role in table.NODE_ROLES else str(role)


def inbox_prefix(role: Role, node: str) -> str:
    """Where a user's answers come in; nobody is granted another's.

    The node is a token of its own, so that one user of a role may be granted those of all nodes.
    """
    return (
        f"_INBOX_{role}.{table.node_token(node)}" if role in table.NODE_ROLES else f"_INBOX_{role}"
    )


def exports() -> tuple[Export, ...]:
    """What the account of the streams opens to nodes and viewers."""
    both = (Account.NODES, Account.VIEWERS)
    nodes = (Account.NODES,)
    written = [each.key("*") for each in table.BUCKETS if each.writer in table.NODE_ROLES]
    appended = [each.subject("*", "*") for each in table.LOGS]
    return (
        Export(subject="sw.>", accounts=both, service=False),
        Export(subject=f"{DIRECT_GET}.>", accounts=both, service=True, many_answers=True),
        *(Export(subject=each, accounts=nodes, service=True) for each in (*written, *appended)),
    )


def permissions(role: Role, node: str = "") -> Permissions:
    """All that one user may do; `node` counts for node services only, and may be EVERY_NODE."""
    if role is Role.CONTROLLER:
        allowed = _controller()
    elif role is Role.COMMAND:
        allowed = _command()
    else:
        allowed = _node_service(role, table.node_token(node))
    inbox = f"{inbox_prefix(role, node)}.>"
    return Permissions(publish=allowed.publish, subscribe=(*allowed.subscribe, inbox))


def _node_service(role: Role, token: str) -> Permissions:
    own = [
        bucket for bucket in table.BUCKETS if bucket in (*table.reads(role), *table.writes(role))
    ]
    keys = [each.key(token) for each in table.writes(role)]
    gets = [
        f"{DIRECT_GET}.{bucket.stream}.{bucket.key(key)}"
        for bucket in own
        for key in (token, table.STORE_KEY)
    ]
    logs = [each.subject(token, "*") for each in table.LOGS if role in each.writers]
    heard = [bucket.heard(token) for bucket in own]
    stores = [bucket.heard(table.STORE_KEY) for bucket in table.writes(role)]
    return Permissions(publish=(*keys, *gets, *logs), subscribe=(*heard, *stores))


def _controller() -> Permissions:
    """All keys of all buckets: its own, each `_store`, and tombstones over those of others."""
    keys = [each.key("*") for each in table.BUCKETS]
    logs = [
        each.subject(table.CONTROLLER_PLACE, "*")
        for each in table.LOGS
        if Role.CONTROLLER in each.writers
    ]
    management = [
        f"$JS.API.STREAM.{verb}.{each.stream}"
        for each in (*table.BUCKETS, *table.LOGS)
        for verb in ("INFO", "CREATE", "UPDATE")
    ]
    return Permissions(
        publish=(*keys, *logs, *management, *_all_gets(Role.CONTROLLER)),
        subscribe=_all_heard(),
    )


def _command() -> Permissions:
    return Permissions(publish=_all_gets(Role.COMMAND), subscribe=_all_heard())


def _all_gets(role: Role) -> tuple[str, ...]:
    """Every value, and the logs that a role reads."""
    one = [f"{DIRECT_GET}.{each.stream}.{each.key('*')}" for each in table.BUCKETS]
    many = [f"{DIRECT_GET}.{each.stream}" for each in table.BUCKETS]
    logs = [f"{DIRECT_GET}.{each.stream}" for each in table.LOGS if role in each.readers]
    return (*one, *many, *logs)


def _all_heard() -> tuple[str, ...]:
    return tuple(each.heard("*") for each in table.BUCKETS)
