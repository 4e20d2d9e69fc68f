"""A foreign plugin on a resource of ours: the allocator's fact becomes an Event on the node."""

from __future__ import annotations

import asyncio
import pathlib

from shared.bus import connection, logs
from shared.bus.login import Login
from shared.contract import names
from shared.contract.facts import Fact, FactKind
from shared.contract.table import Role
from shared.runtime import clock
from tests.integration.controller import whole as parts
from tests.integration.controller.whole import CONFIG_LABEL, NODE
from tests.support.eventually import eventually

SENTENCE = "another plugin (foreign.sock) has registered nvidia.com/gpu at the kubelet"
HOUR_NS = 3600 * 10**9


async def tell(whole: parts.Whole, *facts: tuple[str, FactKind, int]) -> None:
    """Write facts as the node's allocator does: id, kind, how long ago."""
    user, password_file = whole.bus_server.credentials(Role.ALLOCATOR, NODE)
    login = Login(user, password_file)
    url = whole.bus_server.url
    async with connection.open_bus(url, login, Role.ALLOCATOR, NODE) as bus:
        writer = logs.FactWriter(bus, NODE)
        task = whole.tasks.create_task(writer.run())
        for name, kind, age_ns in facts:
            writer.publish(
                Fact(
                    stamp=bus.stamp(NODE),
                    id=name,
                    kind=kind,
                    at_ns=clock.now_ns() - age_ns,
                    sentence=SENTENCE,
                    resource="nvidia.com/gpu",
                )
            )
        await until_stored(whole, {name for name, _, _ in facts})
        task.cancel()


async def until_stored(whole: parts.Whole, ids: set[str]) -> None:
    """Wait until the stream has these facts."""
    async with asyncio.timeout(10):
        while not ids <= {fact.id for fact in await logs.read_facts(whole.bus)}:
            await clock.sleep(0.05)


async def test_a_takeover_is_told_once_on_its_node(tmp_path: pathlib.Path) -> None:
    """U031: neither a later look nor a later leader says it again; old news are no news.

    Facts are read in order: who has told the later one has seen the others.
    """
    async with parts.running(tmp_path, lease_s=1.0) as whole:
        whole.at.add_node(NODE, {CONFIG_LABEL: "any"})
        first = whole.start()
        await whole.wanted()
        await tell(
            whole,
            ("old", FactKind.TAKEN_OVER, HOUR_NS),
            ("other", FactKind.REFUSED, 0),
            ("new", FactKind.TAKEN_OVER, 0),
        )
        await eventually(lambda: whole.at.events(names.RESOURCE_TAKEN_OVER), within=20)
        first.cancel()
        await asyncio.wait([first])
        whole.start()
        await tell(whole, ("later", FactKind.TAKEN_OVER, 0))
        await eventually(lambda: len(whole.at.events(names.RESOURCE_TAKEN_OVER)) == 2, within=20)
        for event in whole.at.events(names.RESOURCE_TAKEN_OVER):
            assert event["involvedObject"]["name"] == NODE
            assert (event["type"], event["message"], event["count"]) == ("Warning", SENTENCE, 1)
