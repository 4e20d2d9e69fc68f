"""The read path on a real server: subscribe, get, apply what is newer."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import AsyncIterator

import pytest

from shared.bus import fleet, state
from shared.bus.connection import Bus
from shared.bus.session import Ear, Message, Session
from shared.contract import codec, streams, table
from shared.contract.messages import Hold, Intent
from shared.contract.table import Role
from shared.simulation.broker import Broker
from tests.integration.bus.rig import (
    NODE,
    OTHER,
    administrator,
    hold,
    intent,
    opened,
    plain,
)
from tests.support.eventually import eventually
from tests.support.running import running

INTENT, HOLD = table.bucket("intent"), table.bucket("hold")
KEY = INTENT.key("gpu-a_example")


class LaggingSession(Session):
    """A session whose gets go on showing what they showed first."""

    def __init__(self, real: Session, answers: list[Message | None]) -> None:
        self._real = real
        self._answers_so_far = answers

    @contextlib.asynccontextmanager
    async def listen(self, *subjects: str, queue: str = "") -> AsyncIterator[Ear]:
        """Listen as the real one does."""
        async with self._real.listen(*subjects, queue=queue) as ear:
            yield ear

    async def get(self, stream: str, key: str) -> Message | None:
        """Ask, and answer as the first time."""
        self._answers_so_far.append(await self._real.get(stream, key))
        return self._answers_so_far[0]


class LaggingBus(Bus):
    """A bus whose sessions lag."""

    def __init__(self, real: Bus, answers: list[Message | None]) -> None:
        self._real = real
        self._answers = answers

    async def session(self) -> Session:
        """The real session, lagging."""
        return LaggingSession(await self._real.session(), self._answers)


def names(received: list[state.Received[Intent]]) -> list[str]:
    """What tests tell intents apart by."""
    return [each.value.mig_config for each in received]


async def test_a_value_that_stands_and_each_newer_one_is_handed_on(stocked: Broker) -> None:
    """The reader gets its own node's values, with the trace they belong to, and no other's."""
    received: list[state.Received[Intent]] = []
    async with (
        administrator(stocked) as admin,
        opened(stocked, Role.AGENT, NODE) as bus,
    ):
        await admin.ask(KEY, codec.encode(intent(NODE, "first", 1)), traceparent="00-aa-bb-01")
        async with running(state.StateReader(bus, INTENT, NODE, received.append).run()):
            await eventually(lambda: received)
            await admin.ask(INTENT.key(OTHER), codec.encode(intent(OTHER, "not ours", 1)))
            await admin.ask(KEY, codec.encode(intent(NODE, "second", 1)))
            await eventually(lambda: len(received) > 1)
    assert names(received) == ["first", "second"]
    assert [each.traceparent for each in received] == ["00-aa-bb-01", ""]
    assert received[0].sequence < received[1].sequence


async def test_a_refused_write_is_never_seen_by_a_node(stocked: Broker) -> None:
    """What a compare-and-set refuses, and what asks for a roll-up, reaches no reader."""
    received: list[state.Received[Intent]] = []
    async with (
        plain(stocked, Role.CONTROLLER) as controller,
        opened(stocked, Role.ADVERTISER, NODE) as bus,
        running(state.StateReader(bus, INTENT, NODE, received.append).run()),
    ):
        await controller.ask(KEY, codec.encode(intent(NODE, "first", 1)))
        await eventually(lambda: received)
        refused = codec.encode(intent(NODE, "refused", 1))
        answer = await controller.ask(KEY, refused, Nats_Expected_Last_Subject_Sequence="999")
        assert b"wrong last sequence" in answer.data
        for scope in ("all", "sub"):
            answer = await controller.ask(KEY, refused, Nats_Rollup=scope)
            assert b"rollup not permitted" in answer.data
        await controller.ask(KEY, codec.encode(intent(NODE, "second", 1)))
        await eventually(lambda: len(received) > 1)
    assert names(received) == ["first", "second"]


async def test_a_lagging_get_never_takes_a_node_back(stocked: Broker) -> None:
    """A get that still shows a former value, as a replica's may, changes nothing."""

    lagging: list[Message | None] = []
    received: list[state.Received[Intent]] = []
    async with (
        administrator(stocked) as admin,
        opened(stocked, Role.AGENT, NODE) as bus,
    ):
        await admin.ask(KEY, codec.encode(intent(NODE, "first", 1)))
        behind = LaggingBus(bus, lagging)
        reader = state.StateReader(behind, INTENT, NODE, received.append, look_every=0.05)
        async with running(reader.run()):
            await eventually(lambda: received)
            await admin.ask(KEY, codec.encode(intent(NODE, "second", 1)))
            await eventually(lambda: len(received) > 1)
            looks = len(lagging)
            await eventually(lambda: len(lagging) > looks + 2)
    assert names(received) == ["first", "second"]


async def test_a_value_that_was_not_heard_comes_with_the_next_look(stocked: Broker) -> None:
    """A message that is lost on its way costs no more than the time to the next look."""
    received: list[state.Received[Intent]] = []
    async with (
        administrator(stocked) as admin,
        opened(stocked, Role.AGENT, NODE) as bus,
        running(state.StateReader(bus, INTENT, NODE, received.append, look_every=0.05).run()),
    ):
        await admin.ask(KEY, codec.encode(intent(NODE, "heard", 1)))
        await eventually(lambda: received)
        config = streams.bucket_config(INTENT)
        del config["republish"]
        await admin.ask_json("$JS.API.STREAM.UPDATE.KV_intent", json.dumps(config).encode())
        await admin.ask(KEY, codec.encode(intent(NODE, "unheard", 1)))
        await eventually(lambda: names(received) == ["heard", "unheard"])


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"not JSON", id="not JSON"),
        pytest.param(b'{"stamp": {"node": "gpu-a.example"}}', id="keys missing"),
        pytest.param(
            codec.encode(intent(NODE, "newer", 1)).replace(b'"schema":1', b'"schema":2'),
            id="a newer schema",
        ),
        pytest.param(codec.encode(intent(OTHER, "mixed up", 1)), id="about another node"),
    ],
)
async def test_what_cannot_be_read_is_said_once_and_changes_nothing(
    stocked: Broker, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The reader keeps what it had, warns once however often it looks, and goes on."""
    received: list[state.Received[Intent]] = []
    caplog.set_level(logging.WARNING, logger="shared.bus")
    async with (
        administrator(stocked) as admin,
        opened(stocked, Role.AGENT, NODE) as bus,
        running(state.StateReader(bus, INTENT, NODE, received.append, look_every=0.02).run()),
    ):
        await admin.ask(KEY, codec.encode(intent(NODE, "good", 1)))
        await eventually(lambda: received)
        await admin.ask(KEY, data)
        await eventually(lambda: "keeps its former value" in caplog.text)
        await admin.ask(KEY, codec.encode(intent(NODE, "good again", 1)))
        await eventually(lambda: len(received) > 1)
    assert names(received) == ["good", "good again"]
    assert caplog.text.count("keeps its former value") == 1


async def test_an_empty_value_is_no_value(stocked: Broker) -> None:
    """For the node and for those who read all nodes."""
    received: list[state.Received[Intent]] = []
    fleets: list[str] = []
    async with (
        administrator(stocked) as admin,
        opened(stocked, Role.AGENT, NODE) as bus,
        opened(stocked, Role.COMMAND) as view,
        running(
            state.StateReader(bus, INTENT, NODE, received.append).run(),
            fleet.FleetReader(view, INTENT, lambda node, _: fleets.append(node)).run(),
        ),
    ):
        await admin.ask(KEY, b"")
        await admin.ask(KEY, codec.encode(intent(NODE, "good", 1)))
        await eventually(lambda: received and fleets)
    assert names(received) == ["good"]
    assert fleets == [NODE]


async def test_a_fleet_is_read_page_by_page_and_then_heard(stocked: Broker) -> None:
    """A viewer sees every node of a bucket that is larger than a page, each once, and changes."""
    nodes = [f"node-{number}.example" for number in range(1200)]
    seen: dict[str, list[str]] = {}

    def on_value(node: str, received: state.Received[Hold]) -> None:
        seen.setdefault(node, []).append(received.value.reason)

    async with administrator(stocked) as admin, opened(stocked, Role.COMMAND) as view:
        for node in nodes:
            key = HOLD.key(table.node_token(node))
            await admin.client.publish(key, codec.encode(hold(node, "standing", 1)))
        await admin.ask(HOLD.key(OTHER), codec.encode(hold(OTHER, "last", 1)))
        reader: fleet.FleetReader[Hold] = fleet.FleetReader(view, HOLD, on_value)
        async with running(reader.run()):
            await reader.looked.wait()
            assert seen == {node: ["standing"] for node in nodes} | {OTHER: ["last"]}
            await admin.ask(HOLD.key("node-7_example"), codec.encode(hold(nodes[7], "new", 1)))
            await eventually(lambda: seen[nodes[7]] == ["standing", "new"])
