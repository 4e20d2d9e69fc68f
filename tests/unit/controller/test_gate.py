"""Whose token it is, what is remembered of it, and who makes the keys."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from services.commands import bus_keys
from services.reconfigurer.controller.auth import cache, identity
from services.reconfigurer.controller.auth.identity import Accounts, Identity
from shared.bus.auth import jwt
from shared.bus.auth.callout import DeniedError, Entrant, UnsureError
from shared.contract.table import Role
from shared.runtime import clock
from tests.integration.controller.cluster import NAMESPACE, running

ACCOUNTS = Accounts("bus", {"slicewire:agent": Role.AGENT})
TOKEN = f"h.{jwt.encode(json.dumps({'exp': 7}).encode()).decode()}.s"
BOUND = {"node-name": ["gpu-a"], "pod-name": ["agent-x"], "pod-uid": ["u"]}


def status(**changed: Any) -> dict[str, Any]:
    """A TokenReview's answer to a good token."""
    extra = {f"authentication.kubernetes.io/{name}": value for name, value in BOUND.items()}
    user = {"username": "system:serviceaccount:slicewire:agent", "extra": extra}
    return {"authenticated": True, "audiences": ["bus"], "user": user} | changed


def test_a_bound_token_of_ours_is_a_service_on_its_node() -> None:
    """Role by account, node by what the token is bound to, end by the token itself."""
    known = identity.identify(status(), TOKEN, ACCOUNTS)
    assert known == Identity(Entrant(Role.AGENT, "gpu-a", "agent-x"), 7 * 10**9)


@pytest.mark.parametrize(
    ("answer", "token", "said"),
    [
        pytest.param({}, TOKEN, "does not know", id="an empty answer"),
        pytest.param(status(authenticated=False), TOKEN, "does not know", id="unknown"),
        pytest.param(status(audiences=[]), TOKEN, "audience", id="no audience"),
        pytest.param(status(audiences=["other"]), TOKEN, "audience", id="another audience"),
        pytest.param(status(user={}), TOKEN, "no role", id="nobody"),
        pytest.param(status(user={"username": "slicewire:agent"}), TOKEN, "no role", id="a person"),
        pytest.param(status(), "opaque", "when it ends", id="no end"),
    ],
)
def test_anything_less_is_nobody(answer: dict[str, Any], token: str, said: str) -> None:
    """The reason says which check failed."""
    with pytest.raises(DeniedError, match=said):
        identity.identify(answer, token, ACCOUNTS)


@pytest.mark.parametrize("value", [[], ["a", "b"], [""], None], ids=repr)
@pytest.mark.parametrize("name", BOUND)
def test_each_binding_is_due_once(name: str, value: object) -> None:
    """No node, two nodes, an empty one: refused."""
    answer = status()
    answer["user"]["extra"][f"authentication.kubernetes.io/{name}"] = value
    with pytest.raises(DeniedError, match=name):
        identity.identify(answer, TOKEN, ACCOUNTS)


class Reviewer:
    """Answers as it is told, and counts."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer: Identity | Exception = Identity(
            Entrant(Role.AGENT, "gpu-a", "x"), clock.now_ns() + 10**12
        )

    async def review(self, _token: str) -> Identity:
        """Answer after a turn of the loop."""
        self.asked += 1
        await asyncio.sleep(0)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def test_one_review_serves_all_who_show_the_same_token_at_once() -> None:
    """And those who come soon after."""
    reviewer = Reviewer()
    known = cache.Cache(reviewer.review)
    await asyncio.gather(*(known.entrant("t") for _ in range(20)))
    await known.entrant("t")
    assert reviewer.asked == 1
    await known.entrant("another")
    assert reviewer.asked == 2


async def test_a_denial_is_remembered_shortly_and_wins_over_what_was_known() -> None:
    """Once the API server has said no, its absence does not bring the old yes back."""
    reviewer = Reviewer()
    known = cache.Cache(reviewer.review, fresh_s=0)
    await known.entrant("t")
    reviewer.answer = DeniedError("deleted")
    for _ in range(3):
        with pytest.raises(DeniedError):
            await known.entrant("t")
    assert reviewer.asked == 2


async def test_what_was_known_helps_only_while_nobody_can_say_and_the_token_lasts() -> None:
    """Stale on unavailable; never beyond the token's own end; never for an unknown one."""
    reviewer = Reviewer()
    known = cache.Cache(reviewer.review, fresh_s=0)
    await known.entrant("lasting")
    reviewer.answer = Identity(Entrant(Role.AGENT, "gpu-a", "x"), clock.now_ns() - 1)
    await known.entrant("ended")
    reviewer.answer = UnsureError("away")
    assert (await known.entrant("lasting")).node == "gpu-a"
    for token in ("ended", "unknown"):
        with pytest.raises(UnsureError):
            await known.entrant(token)


async def test_the_keys_are_made_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A second run, as each upgrade has it, leaves the Secret as it is."""
    async with running() as cluster:
        arguments = ["--create", "--namespace", NAMESPACE, "--api-url", cluster.url]
        path = f"/api/v1/namespaces/{NAMESPACE}/secrets/slicewire-bus"
        assert await asyncio.to_thread(bus_keys.main, arguments) == 0
        first = await cluster.api.call("GET", path)
        assert await asyncio.to_thread(bus_keys.main, arguments) == 0
        assert (await cluster.api.call("GET", path)) == first
    said = capsys.readouterr().out
    assert "was made" in said
    assert "stays as it is" in said
    assert "S" + "U" not in said


def test_printed_keys_are_a_secret_to_apply(capsys: pytest.CaptureFixture[str]) -> None:
    """For those who seal their Secrets into a repository."""
    assert bus_keys.main(["--namespace", "ns", "--name", "keys"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["metadata"]["name"] == "keys"
    assert printed["stringData"]["issuer.seed"].startswith("SA")
