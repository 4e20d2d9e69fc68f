"""Each user, against every subject that the table gives to somebody else."""

from __future__ import annotations

import pytest

from shared.contract import permissions, table
from shared.contract.table import Role
from shared.simulation.broker import Broker
from tests.integration.bus.rig import NODE, OTHER, plain

EVERY_ROLE = [pytest.param(role, id=str(role)) for role in Role]
NOBODYS_PUBLISH = (
    *(each.heard("gpu-a_example") for each in table.BUCKETS),
    "$JS.API.STREAM.NAMES",
    "$JS.API.STREAM.DELETE.KV_intent",
    "$JS.API.STREAM.PURGE.KV_intent",
    "$JS.API.STREAM.MSG.GET.KV_intent",
    "$JS.API.STREAM.MSG.DELETE.KV_intent",
    "$JS.API.STREAM.CREATE.theirs",
    "$JS.API.CONSUMER.CREATE.KV_intent",
    "$JS.API.CONSUMER.LIST.KV_intent",
    "$SYS.REQ.SERVER.PING",
    "$SYS.REQ.USER.INFO",
    "something.else",
)
NOBODYS_SUBSCRIBE = ("sw.>", "$KV.>", "$KV.intent.*", "_INBOX.>", ">", "$SYS.>", "$JS.API.>")


def covers(pattern: str, subject: str) -> bool:
    """Whether a permission's pattern covers a subject, or a narrower pattern."""
    wanted, given = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        return len(given) >= len(wanted) and covers(
            ".".join(wanted[:-1]), ".".join(given[: len(wanted) - 1])
        )
    pairs = zip(wanted, given, strict=False)
    return len(wanted) == len(given) and all(w in {"*", g} and g != ">" for w, g in pairs)


def everybodys(kind: str) -> set[str]:
    """All subjects that somebody may publish or subscribe to, on either node."""
    return {
        subject
        for role in Role
        for node in (NODE, OTHER)
        for subject in getattr(permissions.permissions(role, node), kind)
    }


def foreign(role: Role, kind: str, besides: tuple[str, ...]) -> list[str]:
    """Subjects that are not this role's on `NODE`, as far as its own patterns go."""
    own = getattr(permissions.permissions(role, NODE), kind)
    return sorted(
        subject
        for subject in everybodys(kind) | set(besides)
        if not any(covers(pattern, subject) for pattern in own)
    )


@pytest.mark.parametrize("role", EVERY_ROLE)
async def test_a_publish_on_a_foreign_subject_is_refused(stocked: Broker, role: Role) -> None:
    """Each foreign subject has its own permissions violation, and the connection stays."""
    subjects = foreign(role, "publish", NOBODYS_PUBLISH)
    assert len(subjects) > len(NOBODYS_PUBLISH)
    async with plain(stocked, role, NODE) as user:
        for subject in subjects:
            await user.client.publish(subject.replace("*", "x").replace(">", "x"), b"forged")
            said = await user.refusals()
            assert len(said) == 1, subject
            assert "permissions violation for publish" in said[0]
        assert user.client.is_connected


@pytest.mark.parametrize("role", EVERY_ROLE)
async def test_a_subscription_to_a_foreign_subject_is_refused(stocked: Broker, role: Role) -> None:
    """Each foreign subject, each wildcard and each foreign inbox is refused."""
    subjects = foreign(role, "subscribe", NOBODYS_SUBSCRIBE)
    assert len(subjects) > len(NOBODYS_SUBSCRIBE)
    async with plain(stocked, role, NODE) as user:
        for subject in subjects:
            await user.heard(subject)
            said = await user.refusals()
            assert len(said) == 1, subject
            assert "permissions violation for subscription" in said[0]


@pytest.mark.parametrize("role", EVERY_ROLE)
async def test_everything_that_the_table_allows_is_allowed(stocked: Broker, role: Role) -> None:
    """No own subject is refused, with the node's dots written as `_`."""
    own = permissions.permissions(role, NODE)
    async with plain(stocked, role, NODE) as user:
        for subject in own.publish:
            await user.client.publish(subject.replace("*", "x"), b"")
        for subject in own.subscribe:
            await user.heard(subject)
        assert await user.refusals() == []


async def test_a_batch_cannot_be_asked_of_a_single_keys_subject(stocked: Broker) -> None:
    """The right to get one's own key is not the right to name others in the request's body."""
    async with plain(stocked, Role.ALLOCATOR, NODE) as user:
        subject = f"{permissions.DIRECT_GET}.KV_ledger.$KV.ledger.gpu-a_example"
        answer = await user.ask(subject, b'{"multi_last": ["$KV.ledger.>"], "batch": 10}')
    assert (answer.headers or {})["Status"] == "408"
