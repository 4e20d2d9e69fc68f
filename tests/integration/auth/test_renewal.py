"""Logins end; services enter anew before that, and never give up a good connection for none."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator

import pytest

from shared.bus import connection
from shared.bus.auth import callout, desk, installation, jwt, sealing
from shared.bus.auth.callout import Entrant
from shared.bus.login import Login
from shared.contract.keys import Key
from shared.contract.table import Role
from tests.integration.auth.rig import NODE, Rig
from tests.support.eventually import eventually
from tests.support.running import running

LIFE_S = 4  # tokens count in whole seconds


@contextlib.asynccontextmanager
async def short_lived(rig: Rig) -> AsyncIterator[None]:
    """Somebody who lets all in, for a short time."""
    issuer, curve = ((rig.keys / key.seed_file).read_text() for key in (Key.ISSUER, Key.CURVE))
    clerk = callout.Clerk(jwt.Issuer(issuer), sealing.Curve(curve))
    login = Login(seed_file=rig.keys / Key.GATE.seed_file)

    async def anybody(_token: str) -> Entrant:
        return Entrant(Role.AGENT, NODE, "agent-x")

    async with (
        connection.open_bus(rig.broker.url, login, Role.CONTROLLER) as bus,
        running(desk.Desk(bus, clerk, anybody, life_s=LIFE_S).run()),
    ):
        yield


async def test_a_login_is_renewed_before_it_ends(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """Several lives pass and the server never has to end a connection."""
    login = Login(token_file=rig.token_file("agent"), life_s=LIFE_S)
    async with (
        short_lived(rig),
        connection.open_bus(rig.broker.url, login, Role.AGENT, NODE) as bus,
    ):
        with caplog.at_level(logging.WARNING, "shared.bus"):
            await eventually(lambda: bus.reconnects >= 2, within=30)
        assert bus.connected
    said = [each.message for each in caplog.records]
    assert not any("xpired" in each for each in said), said


async def test_an_outage_longer_than_a_login_is_survived(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """The connection lasts as long as it may; when somebody answers again, the service is in."""
    login = Login(token_file=rig.token_file("agent"), life_s=LIFE_S)
    async with connection.open_bus(rig.broker.url, login, Role.AGENT, NODE) as bus:
        async with short_lived(rig):
            await eventually(lambda: bus.connected, within=20)
        with caplog.at_level(logging.WARNING, "shared.bus"):
            await eventually(lambda: "not renewed" in caplog.text, within=20)
            await eventually(lambda: not bus.connected, within=20)
        async with short_lived(rig):
            await eventually(lambda: bus.connected, within=20)


async def test_a_server_with_other_keys_lets_nobody_in(rig: Rig) -> None:
    """Keys made anew after the server has started: nobody is admitted by a wrong issuer."""
    for name, text in installation.make().items():
        if name == Key.ISSUER.seed_file:
            (rig.keys / name).write_text(text)
    login = Login(token_file=rig.token_file("agent"))
    async with (
        short_lived(rig),
        connection.open_bus(rig.broker.url, login, Role.AGENT, NODE) as bus,
    ):
        await eventually(lambda: bus.trouble, within=20)
        assert not bus.connected
