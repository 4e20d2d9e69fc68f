"""A foreign plugin on a resource of ours: the allocator's fact becomes an Event on the node."""

from __future__ import annotations

import asyncio
import pathlib
import types

import pytest

from services.reconfigurer.controller import facts
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


async def tell(
    whole: parts.Whole, *found: tuple[str, FactKind, int], sentence: str = SENTENCE
) -> None:
    """Write facts as the node's allocator does: id, kind, how long ago."""
    user, password_file = whole.bus_server.credentials(Role.ALLOCATOR, NODE)
    login = Login(user, password_file)
    url = whole.bus_server.url
    async with connection.open_bus(url, login, Role.ALLOCATOR, NODE) as bus:
        writer = logs.FactWriter(bus, NODE)
        task = whole.tasks.create_task(writer.run())
        for name, kind, age_ns in found:
            writer.publish(
                Fact(
                    stamp=bus.stamp(NODE),
                    id=name,
                    kind=kind,
                    at_ns=clock.now_ns() - age_ns,
                    sentence=sentence,
                    resource="nvidia.com/gpu",
                )
            )
        await until_stored(whole, {name for name, _, _ in found})
        task.cancel()


async def until_stored(whole: parts.Whole, ids: set[str]) -> None:
    """Wait until the stream has these facts."""
    async with asyncio.timeout(10):
        while not ids <= {fact.id for fact in await logs.read_facts(whole.bus)}:
            await clock.sleep(0.05)


async def test_a_takeover_is_told_once_on_its_node(tmp_path: pathlib.Path) -> None:
    """U031: neither a later look nor a later leader says it again.

    Facts are read in order: who has told the later one has seen the others.
    """
    async with parts.running(tmp_path, lease_s=1.0) as whole:
        whole.at.add_node(NODE, {CONFIG_LABEL: "any"})
        first = whole.start()
        await whole.wanted()
        await tell(
            whole,
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


async def test_how_old_a_fact_is_says_the_store(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node whose clock is an hour slow is heard; what was stored long ago is no news."""
    async with parts.running(tmp_path, lease_s=1.0) as whole:
        whole.at.add_node(NODE, {CONFIG_LABEL: "any"})
        with monkeypatch.context() as quiet:
            quiet.setattr(facts, "KINDS", ())
            first = whole.start()
            await whole.wanted()
            await tell(whole, ("old", FactKind.TAKEN_OVER, 0))
            first.cancel()
            await asyncio.wait([first])
        since_ns = clock.now_ns()
        later = types.SimpleNamespace(now_ns=lambda: since_ns + facts.FRESH_NS, sleep=clock.sleep)
        monkeypatch.setattr(facts, "clock", later)
        whole.start()
        await tell(whole, ("new", FactKind.TAKEN_OVER, HOUR_NS), sentence="told by a slow clock")

        def told() -> list[str]:
            return [event["message"] for event in whole.at.events(names.RESOURCE_TAKEN_OVER)]

        await eventually(lambda: "told by a slow clock" in told(), within=20)
        assert told() == ["told by a slow clock"]
