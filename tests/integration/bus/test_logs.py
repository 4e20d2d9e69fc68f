"""Facts and spans: stored once, in order, read back without a consumer."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import random
from typing import Any

from shared.bus import logs
from shared.contract import codec, messages
from shared.contract.facts import Fact, FactKind
from shared.contract.spans import SpanRecord, Spans
from shared.contract.table import Role
from shared.runtime import clock
from shared.simulation.broker import Broker
from tests.integration.bus.rig import (
    NODE,
    OTHER,
    Plain,
    administrator,
    make_streams,
    opened,
    plain,
)
from tests.support.eventually import eventually
from tests.support.running import running

SMALL = 32 * 1024
TRACE, OTHER_TRACE = "a" * 32, "b" * 32


class SmallBroker(Broker):
    """A server that takes no large messages."""

    def configuration(self) -> str:
        """The product's configuration with another limit."""
        return json.dumps(json.loads(super().configuration()) | {"max_payload": SMALL})


def fact(number: int, node: str = NODE, kind: FactKind = FactKind.GRANTED) -> Fact:
    """A fact that tests tell apart by its sentence."""
    stamp = messages.Stamp(node=node, writer="test")
    return Fact(stamp=stamp, id=f"{node}-{number}", kind=kind, at_ns=number, sentence=str(number))


def span(number: int, trace_id: str = TRACE) -> SpanRecord:
    """A finished span that tests tell apart by its id."""
    return SpanRecord(
        trace_id=trace_id,
        span_id=f"{number:016x}",
        parent_id="",
        name="do something",
        service="agent",
        node=NODE,
        start_ns=number,
        end_ns=number + 1,
        attributes={"count": number, "ratio": 0.5, "ok": True, "name": "x"},
    )


async def test_facts_are_read_back_by_node_and_kind(stocked: Broker) -> None:
    """Each fact once and in order, also one that was published twice."""
    async with (
        opened(stocked, Role.ALLOCATOR, NODE) as bus,
        opened(stocked, Role.CONTROLLER) as controller,
        opened(stocked, Role.COMMAND) as view,
    ):
        node_facts = logs.FactWriter(bus, NODE)
        controller_facts = logs.FactWriter(controller, OTHER)
        async with running(node_facts.run(), controller_facts.run()):
            for number in (1, 2, 2, 3):
                node_facts.publish(fact(number), traceparent="00-aa-bb-01")
            node_facts.publish(fact(4, kind=FactKind.HEALTH))
            await eventually(lambda: seen(view, 4))
            controller_facts.publish(fact(5, OTHER, FactKind.STEP))
            await eventually(lambda: seen(view, 5))
        assert [each.sentence for each in await logs.read_facts(view)] == ["1", "2", "3", "4", "5"]
        assert await logs.read_facts(view, kind=FactKind.HEALTH) == [fact(4, kind=FactKind.HEALTH)]
        assert len(await logs.read_facts(view, node=NODE)) == 4


async def test_facts_are_read_from_a_moment_on(stocked: Broker) -> None:
    """The server's clock counts, by which it stored them; of a moment to come there is nothing."""
    async with (
        opened(stocked, Role.ALLOCATOR, NODE) as bus,
        opened(stocked, Role.COMMAND) as view,
    ):
        writer = logs.FactWriter(bus, NODE)
        async with running(writer.run()):
            writer.publish(fact(1))
            await eventually(lambda: seen(view, 1))
            between = clock.now_ns()
            writer.publish(fact(2))
            await eventually(lambda: seen(view, 2))
        assert await logs.read_facts(view, since_ns=between) == [fact(2)]
        assert await logs.read_facts(view, kind=FactKind.STEP, since_ns=between) == []
        assert await logs.read_facts(view, since_ns=clock.now_ns() + 60 * 10**9) == []


async def seen(view: object, count: int) -> bool:
    """Whether so many facts are stored."""
    return len(await logs.read_facts(view)) == count  # type: ignore[arg-type]  # a Bus


async def stored(admin: Plain, count: int) -> bool:
    """Whether the stream of facts holds so many."""
    info: Any = await admin.ask_json("$JS.API.STREAM.INFO.facts")
    return bool(info["state"]["messages"] == count)


async def test_spans_are_read_back_by_trace(stocked: Broker) -> None:
    """A trace's spans and no others, of however many batches and pages."""
    async with (
        opened(stocked, Role.AGENT, NODE) as bus,
        opened(stocked, Role.COMMAND) as view,
    ):
        writer = logs.SpanWriter(bus, NODE, "agent")
        async with running(writer.run()):
            for number in range(500):
                writer.add(span(number))
            writer.add(span(1000, OTHER_TRACE))
            await eventually(lambda: traced(view, OTHER_TRACE, 1))
        assert await logs.read_spans(view, TRACE) == [span(number) for number in range(500)]
        assert len(await logs.read_spans(view)) == 501
        assert await logs.read_spans(view, "c" * 32) == []
        assert writer.dropped == 0


async def traced(view: object, trace_id: str, count: int) -> bool:
    """Whether so many spans of a trace are stored."""
    return len(await logs.read_spans(view, trace_id)) == count  # type: ignore[arg-type]  # a Bus


async def test_entries_wait_for_their_stream_and_the_oldest_are_dropped(broker: Broker) -> None:
    """Before the streams stand a bounded number is kept, and what is dropped is counted."""
    async with (
        opened(broker, Role.ALLOCATOR, NODE) as bus,
        opened(broker, Role.COMMAND) as view,
        administrator(broker) as admin,
    ):
        writer = logs.FactWriter(bus, NODE)
        for number in range(logs.KEPT_FACTS + 10):
            writer.publish(fact(number))
        async with running(writer.run()):
            await eventually(lambda: bus.connected)
            await make_streams(broker)
            await eventually(lambda: stored(admin, logs.KEPT_FACTS), within=20)
        facts = await logs.read_facts(view)
    assert writer.dropped == 10
    assert [each.at_ns for each in facts] == list(range(10, logs.KEPT_FACTS + 10))


async def test_an_entry_that_cannot_be_read_hides_no_other(stocked: Broker) -> None:
    """A newer version's fact is left out, the others are listed."""
    async with administrator(stocked) as admin, opened(stocked, Role.COMMAND) as view:
        newer = codec.encode(fact(1)).replace(b'"schema":1', b'"schema":2')
        for data in (newer, b"no JSON", codec.encode(fact(2))):
            await admin.ask("facts.gpu-a_example.granted", data)
        assert await logs.read_facts(view) == [fact(2)]


async def test_a_node_tells_of_itself_only(stocked: Broker) -> None:
    """Its credential lets it write in its own place; what is said there about others is no news."""
    async with opened(stocked, Role.COMMAND) as view, plain(stocked, Role.ALLOCATOR, NODE) as node:
        for about in (NODE, OTHER):
            entry = dataclasses.replace(fact(1, about), id=about)
            await node.ask("facts.gpu-a_example.granted", codec.encode(entry))
            spans = (span(1), dataclasses.replace(span(2), node=OTHER))
            batch = Spans(stamp=messages.Stamp(node=about, writer="test"), spans=spans)
            await node.ask(f"spans.gpu-a_example.{TRACE}", codec.encode(batch))
        assert [each.id for each in await logs.read_facts(view)] == [NODE]
        assert await logs.read_spans(view) == [span(1)]


async def test_a_fact_that_is_too_large_does_not_stop_the_others(stocked: Broker) -> None:
    """The server would close the connection on it, so it is never sent."""
    async with (
        opened(stocked, Role.ALLOCATOR, NODE) as bus,
        opened(stocked, Role.COMMAND) as view,
    ):
        writer = logs.FactWriter(bus, NODE)
        async with running(writer.run()):
            writer.publish(
                Fact(
                    stamp=messages.Stamp(node=NODE, writer="test"),
                    id="large",
                    kind=FactKind.STEP,
                    at_ns=1,
                    sentence=random.Random(7).randbytes(1 << 20).hex(),  # cannot be packed
                )
            )
            writer.publish(fact(1))
            await eventually(lambda: seen(view, 1))
        assert bus.reconnects == 0


async def test_a_server_that_takes_less_than_ours_refuses_one_entry_and_not_the_rest(
    tmp_path: pathlib.Path,
) -> None:
    """On somebody's existing NATS the limit is theirs; what is above it is counted as dropped."""
    broker = SmallBroker(tmp_path, [NODE])
    await broker.start()
    try:
        await make_streams(broker)
        async with (
            opened(broker, Role.ALLOCATOR, NODE) as bus,
            opened(broker, Role.COMMAND) as view,
        ):
            writer = logs.FactWriter(bus, NODE)
            for length in (SMALL, SMALL - 600, SMALL - 200):  # headers count as well
                writer.publish(dataclasses.replace(fact(0), id=f"{length}", sentence="x" * length))
            writer.publish(fact(1))
            async with running(writer.run()):
                await eventually(lambda: seen(view, 1))
            assert (writer.dropped, bus.reconnects) == (3, 0)
    finally:
        await broker.stop()
