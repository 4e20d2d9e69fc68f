"""The write path on a real server: the newest value stands, whatever happens to the store."""

from __future__ import annotations

import json
import logging
import random
from typing import Any

import pytest
from nats.aio.msg import Msg

from shared.bus import ensure, errors, fleet, state
from shared.contract import codec, permissions, streams, table
from shared.contract.messages import Hold, Intent, Ledger
from shared.contract.table import Role
from shared.simulation.broker import Broker
from tests.integration.bus.rig import (
    NODE,
    OTHER,
    Plain,
    administrator,
    hold,
    intent,
    make_streams,
    opened,
)
from tests.support.eventually import eventually
from tests.support.running import running

INTENT, HOLD = table.bucket("intent"), table.bucket("hold")
KEY = HOLD.key("gpu-a_example")


async def standing(admin: Plain, key: str = KEY) -> Hold | None:
    """The hold that stands under a key."""
    answer = await admin.ask(f"{permissions.DIRECT_GET}.{HOLD.stream}.{key}")
    return codec.decode(Hold, answer.data) if answer.data else None


async def reason(admin: Plain, key: str = KEY) -> str:
    """What tests tell holds apart by."""
    value = await standing(admin, key)
    return value.reason if value else ""


async def last_sequence(admin: Plain) -> int:
    """How often the bucket was written to."""
    info: Any = await admin.ask_json(f"$JS.API.STREAM.INFO.{HOLD.stream}")
    return int(info["state"]["last_seq"])


async def test_a_value_is_stored_once_with_the_store_it_was_written_to(stocked: Broker) -> None:
    """Putting, hearing oneself and looking again write nothing a second time."""
    stores = await make_streams(stocked)
    async with administrator(stocked) as admin, opened(stocked, Role.AGENT, NODE) as bus:
        writer: state.StateWriter[Hold] = state.StateWriter(bus, HOLD, NODE, look_every=0.02)
        async with running(writer.run()):
            writer.put(hold(NODE, "superseded"))
            writer.put(hold(NODE, "newest"), traceparent="00-aa-bb-01")
            await eventually(lambda: standing(admin))
            written = await last_sequence(admin)
            heard = admin.client.stats["in_msgs"]
            await eventually(lambda: last_sequence_after(admin, heard + 20))
        value = await standing(admin)
        assert value == hold(NODE, "newest", stores["hold"])
        assert await last_sequence(admin) == written == 2


async def test_a_value_is_renewed_and_readers_are_told_nothing_new(stocked: Broker) -> None:
    """Its age says that the writer lives; who acts on values is left alone."""
    ledgers = table.bucket("ledger")
    await make_streams(stocked)
    told: list[state.Received[Ledger]] = []
    renewed: list[state.Received[Ledger]] = []
    async with (
        opened(stocked, Role.ALLOCATOR, NODE) as bus,
        opened(stocked, Role.COMMAND) as command,
    ):
        writer: state.StateWriter[Ledger] = state.StateWriter(bus, ledgers, NODE, renew_every=0.05)
        reader: fleet.FleetReader[Ledger] = fleet.FleetReader(
            command,
            ledgers,
            lambda _, received: told.append(received),
            on_renewed=lambda _, received: renewed.append(received),
        )
        async with running(writer.run()), running(reader.run()):
            writer.put(Ledger(stamp=bus.stamp(NODE), rows=(), counts=()))
            await eventually(lambda: len(renewed) > 2)
            writer.put(Ledger(stamp=bus.stamp(NODE), rows=(), counts=(), held_order=1))
            await eventually(lambda: len(told) > 1)
    assert len(told) == 2
    assert renewed[0].stored_at < renewed[1].stored_at


async def last_sequence_after(admin: Plain, messages_in: int) -> bool:
    """Whether the server has answered the administrator so often: some time has passed."""
    await last_sequence(admin)
    return admin.client.stats["in_msgs"] >= messages_in


async def test_a_value_waits_for_its_bucket(broker: Broker) -> None:
    """A service that starts before the controller has made the streams writes when they stand."""
    async with administrator(broker) as admin, opened(broker, Role.AGENT, NODE) as bus:
        writer: state.StateWriter[Hold] = state.StateWriter(bus, HOLD, NODE)
        async with running(writer.run()):
            writer.put(hold(NODE, "early"))
            await eventually(lambda: bus.connected)
            stores = await make_streams(broker)
            await eventually(lambda: standing(admin))
            assert await standing(admin) == hold(NODE, "early", stores["hold"])


@pytest.mark.parametrize("answer", [b"", b"+OK", b"[]", b"{}", b'{"seq": "1"}', b"\xff"])
async def test_somebody_else_who_answers_on_our_subjects_is_no_stream(
    broker: Broker, answer: bytes
) -> None:
    """Whatever they say is no acknowledgement: the value is written when its stream is there."""
    async with administrator(broker) as admin, opened(broker, Role.AGENT, NODE) as bus:
        asked: list[str] = []

        async def reply(message: Msg) -> None:
            asked.append(message.subject)
            await message.respond(answer)

        theirs = await admin.client.subscribe(HOLD.key(">"), cb=reply)
        await admin.settle()
        session = await bus.session()
        with pytest.raises(errors.MissingError):
            await session.store(KEY, b"{}", {})
        assert asked == [KEY]
        await theirs.unsubscribe()
        await make_streams(broker)
        assert await session.store(KEY, b"{}", {}) == 2


async def test_a_displaced_value_is_put_back(
    stocked: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """Another value under one's key is heard, said, and replaced."""
    caplog.set_level(logging.WARNING, logger="shared.bus")
    async with administrator(stocked) as admin, opened(stocked, Role.AGENT, NODE) as bus:
        writer: state.StateWriter[Hold] = state.StateWriter(bus, HOLD, NODE)
        async with running(writer.run()):
            writer.put(hold(NODE, "ours"))
            await eventually(lambda: standing(admin))
            await admin.ask(KEY, codec.encode(hold(NODE, "theirs", 1)))
            await eventually(lambda: reason_is(admin, "ours"))
    assert caplog.text.count("another writer's value") == 1


async def reason_is(admin: Plain, wanted: str) -> bool:
    """Whether this hold stands."""
    return await reason(admin) == wanted


async def test_a_bucket_that_vanishes_under_a_live_connection_is_written_anew(
    stocked: Broker,
) -> None:
    """The new store is heard, every writer writes again, and every reader takes it."""
    node_sees: list[state.Received[Intent]] = []
    view_sees: list[state.Received[Hold]] = []
    async with (
        administrator(stocked) as admin,
        opened(stocked, Role.CONTROLLER) as controller,
        opened(stocked, Role.AGENT, NODE) as agent,
        opened(stocked, Role.COMMAND) as view,
    ):
        stores = await ensure.ensure_streams(controller)
        intents: fleet.FleetWriter[Intent] = fleet.FleetWriter(controller, INTENT)
        holds: state.StateWriter[Hold] = state.StateWriter(agent, HOLD, NODE)
        async with running(
            intents.run(),
            holds.run(),
            state.StateReader(agent, INTENT, NODE, node_sees.append).run(),
            fleet.FleetReader(view, HOLD, lambda _, received: view_sees.append(received)).run(),
        ):
            for number in range(5):  # so that sequences in the new stores are lower
                intents.put(NODE, intent(NODE, str(number)))
                holds.put(hold(NODE, str(number)))
                await eventually(lambda: len(node_sees) > number and len(view_sees) > number)  # noqa: B023
            for bucket in (INTENT, HOLD):
                await admin.ask(f"$JS.API.STREAM.DELETE.{bucket.stream}")
            anew = await ensure.ensure_streams(controller)
            assert all(anew[name] > stores[name] for name in ("intent", "hold"))
            await eventually(lambda: len(node_sees) == 6 and len(view_sees) == 6)
    assert node_sees[-1].value == intent(NODE, "4", anew["intent"])
    assert view_sees[-1].value == hold(NODE, "4", anew["hold"])
    assert view_sees[-1].sequence < view_sees[-2].sequence


async def test_a_store_that_went_back_is_a_new_store(stocked: Broker) -> None:
    """Sequences that are lower than before (a copy was restored) make a greater `_store`."""
    async with administrator(stocked) as admin, opened(stocked, Role.CONTROLLER) as controller:
        before = await ensure.ensure_streams(controller)
        for number in range(3):
            await admin.ask(KEY, codec.encode(hold(NODE, str(number), 1)))
        assert await ensure.ensure_streams(controller) == before
        await admin.ask(f"$JS.API.STREAM.DELETE.{HOLD.stream}")
        await make_without_store(admin)
        await admin.ask(HOLD.key(table.STORE_KEY), str(before["hold"]).encode())
        after = await ensure.ensure_streams(controller)
        assert after["hold"] > before["hold"]
        assert {**after, "hold": 0} == {**before, "hold": 0}


async def make_without_store(admin: Plain) -> None:
    """An empty bucket, as somebody's restore would leave it."""
    config = json.dumps(streams.bucket_config(HOLD)).encode()
    assert "error" not in await admin.ask_json(f"$JS.API.STREAM.CREATE.{HOLD.stream}", config)


async def test_a_stream_that_somebody_changed_is_mended(stocked: Broker) -> None:
    """What differs from the contract is set right, and nothing stored is lost."""
    config = streams.bucket_config(HOLD) | {"max_msgs_per_subject": 5, "description": "theirs"}
    async with administrator(stocked) as admin, opened(stocked, Role.CONTROLLER) as controller:
        await admin.ask(KEY, codec.encode(hold(NODE, "kept", 1)))
        name = f"$JS.API.STREAM.UPDATE.{HOLD.stream}"
        assert "error" not in await admin.ask_json(name, json.dumps(config).encode())
        await ensure.ensure_streams(controller)
        info: Any = await admin.ask_json(f"$JS.API.STREAM.INFO.{HOLD.stream}")
        assert streams.bucket_config(HOLD).items() <= info["config"].items()
        assert await reason(admin) == "kept"


async def test_a_stream_that_the_server_will_not_make_or_mend_is_named(broker: Broker) -> None:
    """On somebody's existing NATS another stream may have our subjects."""
    async with administrator(broker) as admin, opened(broker, Role.CONTROLLER) as bus:
        theirs = json.dumps({"name": "THEIRS", "subjects": [HOLD.key(">")]}).encode()
        await admin.ask_json("$JS.API.STREAM.CREATE.THEIRS", theirs)
        with pytest.raises(errors.RejectedError, match=r"^stream KV_hold: subjects overlap"):
            await ensure.ensure_streams(bus)


async def test_nothing_stored_can_be_deleted_or_purged(stocked: Broker) -> None:
    """The streams themselves say no, even to somebody with all rights."""
    async with administrator(stocked) as admin:
        await admin.ask(KEY, codec.encode(hold(NODE, "kept", 1)))
        for call, body in (("MSG.DELETE", b'{"seq": 2}'), ("PURGE", b"{}")):
            answer = await admin.ask_json(f"$JS.API.STREAM.{call}.{HOLD.stream}", body)
            assert "error" in answer
        assert await reason(admin) == "kept"


async def test_a_value_above_the_limit_is_refused_with_a_sentence(
    stocked: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """The former value goes on standing, the connection stays, and the next value is written."""
    caplog.set_level(logging.WARNING, logger="shared.bus")
    async with administrator(stocked) as admin, opened(stocked, Role.AGENT, NODE) as bus:
        writer: state.StateWriter[Hold] = state.StateWriter(bus, HOLD, NODE)
        async with running(writer.run()):
            writer.put(hold(NODE, "good"))
            await eventually(lambda: standing(admin))
            noise = random.Random(7).randbytes(HOLD.max_value_bytes).hex()  # cannot be packed
            writer.put(hold(NODE, noise))
            await eventually(lambda: "was not written" in caplog.text)
            assert await reason(admin) == "good"
            writer.put(hold(NODE, "good again"))
            await eventually(lambda: reason_is(admin, "good again"))
    assert bus.reconnects == 0
    assert "the hold of node gpu-a.example" in caplog.text
    assert caplog.text.count("was not written") == 1


async def test_the_largest_value_fits(stocked: Broker) -> None:
    """A value at the limit passes the server, the stream, the republished copy and the get."""
    received: list[state.Received[Hold]] = []
    room = HOLD.max_value_bytes - len(codec.encode(hold(NODE, "", 10**18)))
    async with (
        opened(stocked, Role.AGENT, NODE) as agent,
        opened(stocked, Role.ALLOCATOR, NODE) as allocator,
    ):
        writer: state.StateWriter[Hold] = state.StateWriter(agent, HOLD, NODE)
        reader = state.StateReader(allocator, HOLD, NODE, received.append)
        async with running(writer.run(), reader.run()):
            writer.put(hold(NODE, "x" * room), traceparent=f"00-{'a' * 32}-{'b' * 16}-01")
            await eventually(lambda: received)
    assert len(received[0].value.reason) == room


async def test_a_fleets_values_are_kept_standing(stocked: Broker) -> None:
    """The controller's writer stores hundreds of nodes and writes only what has changed."""
    nodes = [f"node-{number}.example" for number in range(300)]
    seen: dict[str, list[str]] = {}

    def on_value(node: str, received: state.Received[Intent]) -> None:
        seen.setdefault(node, []).append(received.value.mig_config)

    async with (
        opened(stocked, Role.CONTROLLER) as controller,
        opened(stocked, Role.COMMAND) as view,
    ):
        writer: fleet.FleetWriter[Intent] = fleet.FleetWriter(controller, INTENT, look_every=0.1)
        async with running(writer.run(), fleet.FleetReader(view, INTENT, on_value).run()):
            for node in nodes:
                writer.put(node, intent(node, "first"))
            await eventually(lambda: len(seen) == len(nodes), within=20)
            writer.put(nodes[3], intent(nodes[3], "second"))
            writer.put(OTHER, intent(OTHER, "first"))
            await eventually(lambda: OTHER in seen)
    assert seen.pop(nodes[3]) == ["first", "second"]
    assert set(map(tuple, seen.values())) == {("first",)}
