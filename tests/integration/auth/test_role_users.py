"""An existing NATS with one user for each role, as `slicewire bus users` prints them."""

from __future__ import annotations

import contextlib
import json
import pathlib
from collections.abc import AsyncIterator

import pytest

from services.commands import bus_users
from shared.bus import connection, ensure, fleet, state
from shared.bus.login import Login
from shared.contract import server_conf, table
from shared.contract.messages import Hold
from shared.contract.table import Role
from shared.simulation.broker import Broker
from tests.integration.auth.rig import NODE, OTHER
from tests.integration.bus.rig import hold
from tests.support.eventually import eventually
from tests.support.running import running


class Existing(Broker):
    """Somebody's server, with our accounts in its configuration."""

    def configuration(self) -> str:
        """Its own settings, then what the command prints."""
        own = json.loads(super().configuration())
        place = {name: own[name] for name in ("host", "port", "max_payload", "jetstream")}
        return (
            json.dumps(place)[1:-1].replace(', "', '\n"') + "\n" + server_conf.role_accounts()[2:-2]
        )


@pytest.fixture
async def existing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Existing]:
    """Running, with a password for each role."""
    for role in Role:
        monkeypatch.setenv(server_conf.password_variable(role), f"of-{role}")
        (tmp_path / role).write_text(f"of-{role}\n")
    server = Existing(tmp_path / "nats")
    await server.start()
    yield server
    await server.stop()


async def test_the_users_of_a_role_on_two_nodes_are_one(
    existing: Existing, tmp_path: pathlib.Path
) -> None:
    """Both write their own keys, and the controller hears both."""
    heard: set[str] = set()
    bucket = table.bucket("hold")

    def opened(
        role: Role, node: str = ""
    ) -> contextlib.AbstractAsyncContextManager[connection.Bus]:
        return connection.open_bus(existing.url, Login(role, tmp_path / role), role, node)

    async with (
        opened(Role.CONTROLLER) as controller,
        opened(Role.AGENT, NODE) as first,
        opened(Role.AGENT, OTHER) as second,
    ):
        await ensure.ensure_streams(controller)
        writers: list[state.StateWriter[Hold]] = [
            state.StateWriter(bus, bucket, bus.node) for bus in (first, second)
        ]
        reader: fleet.FleetReader[Hold] = fleet.FleetReader(
            controller, bucket, lambda node, _hold: heard.add(node)
        )
        async with running(reader.run(), *(each.run() for each in writers)):
            for node, writer in zip((NODE, OTHER), writers, strict=True):
                writer.put(hold(node, "x"))
            await eventually(lambda: heard == {NODE, OTHER}, within=15)


def test_what_is_printed_says_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    """Each variable is named above, and no password stands in the text."""
    assert bus_users.main([]) == 0
    printed = capsys.readouterr().out
    head = printed[: printed.index("{")]
    for role in Role:
        assert server_conf.password_variable(role) in head
        assert f'"password": ${server_conf.password_variable(role)}' in printed
