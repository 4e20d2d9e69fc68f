"""Who is let in, with what rights, and who is not; over outages of everybody who has a say."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from nats.errors import Error

from services.reconfigurer.controller import kube
from services.reconfigurer.controller.auth import cache, reviews
from services.reconfigurer.controller.auth.identity import Accounts
from shared.bus import connection, ensure, fleet, state
from shared.bus.auth import callout
from shared.bus.login import Login
from shared.contract import chart_file, names, permissions, table
from shared.contract.keys import Key
from shared.contract.messages import Hold, Intent
from shared.contract.table import NODE_ROLES, Role
from shared.simulation.kube.apiserver.faults import Call, Fault, Refuse
from tests.integration.auth.rig import ACCOUNTS, NODE, OTHER, Rig
from tests.integration.bus.rig import hold, intent
from tests.integration.bus.test_permissions import (
    NOBODYS_PUBLISH,
    NOBODYS_SUBSCRIBE,
    foreign,
)
from tests.support.eventually import eventually
from tests.support.running import running


@pytest.mark.parametrize("role", NODE_ROLES, ids=str)
async def test_a_token_gives_its_own_node_s_rights_and_no_others(rig: Rig, role: Role) -> None:
    """Each foreign subject is refused by itself, each own one is allowed, the connection stays."""
    async with rig.gate(), rig.plain(rig.token(role), role) as user:
        own = permissions.permissions(role, NODE)
        for subject in own.publish:
            await user.client.publish(subject.replace("*", "x"), b"")
        await user.heard(*own.subscribe)
        assert await user.refusals() == []
        publishes = foreign(role, "publish", (*NOBODYS_PUBLISH, callout.SUBJECT))
        for subject in publishes:
            await user.client.publish(subject.replace("*", "x").replace(">", "x"), b"forged")
        assert len(await user.refusals()) == len(publishes)
        listens = foreign(role, "subscribe", NOBODYS_SUBSCRIBE)
        await user.heard(*listens)
        assert len(await user.refusals()) == len(listens)
        assert user.client.is_connected


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param({"audience": "https://kubernetes.default.svc"}, id="for the API server"),
        pytest.param({"without": "node-name"}, id="bound to no node"),
        pytest.param({"without": "pod-name"}, id="bound to a node, not to a pod"),
        pytest.param({"without": "pod-uid"}, id="bound to a pod without a UID"),
        pytest.param({"account": "slicewire:default"}, id="of an account without a role"),
        pytest.param({"account": "elsewhere:agent"}, id="of another namespace's account"),
    ],
)
async def test_a_token_that_is_not_quite_right_is_refused(rig: Rig, odd: dict[str, Any]) -> None:
    """Everything that is due is checked."""
    async with rig.gate():
        with pytest.raises(Error):
            async with rig.plain(rig.token("agent", **odd), Role.AGENT):
                pass


@pytest.mark.parametrize("shown", ["", "nonsense", "a.b.c"])
async def test_what_is_no_token_is_refused(rig: Rig, shown: str) -> None:
    """Also nothing at all."""
    async with rig.gate():
        assert not await rig.let_in(shown)


async def test_an_intent_reaches_its_node_and_a_hold_the_controller(rig: Rig) -> None:
    """Controller by key, node by token: state flows both ways between their accounts."""
    intents: list[state.Received[Intent]] = []
    holds: list[str] = []
    async with rig.gate(), rig.controller() as controller, rig.opened(Role.AGENT) as agent:
        await ensure.ensure_streams(controller)
        writer: fleet.FleetWriter[Intent] = fleet.FleetWriter(controller, table.bucket("intent"))
        reader: state.StateReader[Intent] = state.StateReader(
            agent, table.bucket("intent"), NODE, intents.append
        )
        back: state.StateWriter[Hold] = state.StateWriter(agent, table.bucket("hold"), NODE)
        heard: fleet.FleetReader[Hold] = fleet.FleetReader(
            controller, table.bucket("hold"), lambda node, _hold: holds.append(node)
        )
        async with running(writer.run(), reader.run(), back.run(), heard.run()):
            writer.put(NODE, intent(NODE, "all-1g.10gb"))
            back.put(hold(NODE, "for a change"))
            await eventually(lambda: intents and holds, within=15)
    assert intents[0].value.mig_config == "all-1g.10gb"
    assert holds[0] == NODE


async def test_a_stolen_seed_of_people_s_commands_cannot_write(rig: Rig) -> None:
    """The command's key stands in the account of viewers."""
    login = Login(seed_file=rig.keys / Key.COMMAND.seed_file)
    async with connection.open_bus(rig.broker.url, login, Role.COMMAND) as bus:
        session = await bus.session()
        with pytest.raises(Exception, match=r"no answer|no stream"):
            async with asyncio.timeout(10):
                await session.store("$KV.intent.gpu-b", b"forged", {})


async def test_nobody_answers_and_then_somebody_does(rig: Rig) -> None:
    """Without a controller who is in stays in, who comes waits; with one back, all come in."""
    async with rig.opened(Role.ALLOCATOR, OTHER) as late:
        async with rig.gate(), rig.opened(Role.AGENT) as early:
            await eventually(lambda: early.connected and late.connected, within=15)
        async with rig.opened(Role.AGENT) as waiting:
            await eventually(lambda: waiting.trouble, within=15)
            assert late.connected
            assert not waiting.connected
            async with rig.gate():
                await eventually(lambda: waiting.connected, within=20)


async def test_one_of_two_replicas_is_enough(rig: Rig) -> None:
    """Both answer; when one is gone the other goes on."""
    async with rig.gate():
        async with rig.gate():
            assert await rig.let_in(rig.token("agent"))
        for _ in range(4):
            assert await rig.let_in(rig.token("agent"))


async def test_the_api_server_is_away(rig: Rig) -> None:
    """A token that is known lets in until it ends; one that nobody knows has to wait."""
    known, unknown = rig.token("agent"), rig.token("allocator")
    accounts = Accounts(names.BUS_AUDIENCE, ACCOUNTS)
    async with kube.connect(rig.api_url, "") as api:
        remembering = cache.Cache(reviews.TokenReviews(api, accounts).review, fresh_s=0)
        assert (await remembering.entrant(known)).node == NODE
        rig.server.fault = away
        assert (await remembering.entrant(known)).node == NODE
        with pytest.raises(callout.UnsureError):
            await remembering.entrant(unknown)
        rig.server.fault = None
        del rig.tokens[known]
        with pytest.raises(callout.DeniedError):
            await remembering.entrant(known)
        rig.server.fault = away
        with pytest.raises(callout.DeniedError):
            await remembering.entrant(known)


async def away(_call: Call) -> Fault | None:
    """An API server that cannot answer."""
    return Refuse(503)


async def test_a_rotated_token_is_shown_at_the_next_login(rig: Rig) -> None:
    """The file is read anew for each connection."""
    file = rig.token_file("agent")
    first = file.read_text()
    login = Login(token_file=file)
    async with rig.gate(), connection.open_bus(rig.broker.url, login, Role.AGENT, NODE) as bus:
        await eventually(lambda: bus.connected, within=15)
        file.write_text(rig.token("agent"))
        del rig.tokens[first]
        await rig.broker.restart(lose_store=False)
        await eventually(lambda: bus.connected and bus.reconnects == 1, within=20)


def test_what_the_server_is_told_names_no_key() -> None:
    """Keys come from variables, which stand without quotes: in quotes NATS reads them as text."""
    told = chart_file.text()
    for key in Key:
        assert f"${key.variable}" in told
        assert f'"${key.variable}"' not in told
    with pytest.raises(json.JSONDecodeError):
        json.loads(told)
