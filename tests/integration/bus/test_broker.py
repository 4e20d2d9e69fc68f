"""The stand-in broker: a server that starts, stops, dies and says why."""

from __future__ import annotations

import pathlib
import stat

import pytest

from shared.contract.table import Role
from shared.simulation.broker import Broker, BrokerError
from tests.integration.bus.rig import NODE, plain
from tests.support.eventually import eventually


class MisconfiguredBroker(Broker):
    """A broker whose configuration no server can read."""

    def configuration(self) -> str:
        """Half of it."""
        return super().configuration()[:-20]


async def test_files_with_secrets_are_their_owners_alone(broker: Broker) -> None:
    """Passwords, and the configuration that holds them."""
    file = broker.credentials(Role.AGENT, NODE)[1]
    for path in (*file.parent.glob("*.password"), file.with_name("nats-server.conf")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_the_port_stays_through_a_restart(broker: Broker) -> None:
    """Clients find the server again where it was."""
    url = broker.url
    await broker.restart(lose_store=True)
    assert broker.url == url
    async with plain(broker, Role.COMMAND):
        pass


async def test_a_server_that_cannot_start_says_why(tmp_path: pathlib.Path) -> None:
    """The error holds the server's own words."""
    broker = MisconfiguredBroker(tmp_path)
    with pytest.raises(BrokerError, match="nats-server ended: nats-server: Parse error on line"):
        await broker.start()
    with pytest.raises(BrokerError, match="start it first"):
        await broker.stop()


async def test_a_server_that_has_died_can_be_stopped_and_started(broker: Broker) -> None:
    """A crash, then what a caller's clean-up does, then a new start."""
    async with plain(broker, Role.COMMAND) as user:
        process = broker._process
        assert process is not None
        process.kill()
        await eventually(lambda: process.returncode is not None)
        await eventually(lambda: not user.client.is_connected)
    await broker.stop()
    await broker.start()


async def test_credentials_of_an_unknown_node_are_none(broker: Broker) -> None:
    """Asking for them is a mistake of the caller."""
    with pytest.raises(KeyError):
        broker.credentials(Role.AGENT, "gpu-z")
