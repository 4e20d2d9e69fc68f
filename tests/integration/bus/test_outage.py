"""NATS away, back, away again: nobody gives up, and nothing old is written late."""

from __future__ import annotations

import pytest

from shared.bus import connection, ensure, state
from shared.bus.login import Login
from shared.contract import codec, permissions, table
from shared.contract.messages import Hold
from shared.contract.table import Role
from shared.simulation.broker import Broker
from tests.integration.bus.rig import (
    NODE,
    administrator,
    hold,
    opened,
)
from tests.support.eventually import eventually
from tests.support.running import running

HOLD = table.bucket("hold")
KEY = HOLD.key("gpu-a_example")


def reasons(received: list[state.Received[Hold]]) -> list[str]:
    """What tests tell holds apart by."""
    return [each.value.reason for each in received]


async def test_a_service_starts_while_nats_is_away_and_joins_later(stocked: Broker) -> None:
    """`open_bus` returns at once; what was put last before the connection is written."""
    await stocked.stop()
    async with opened(stocked, Role.AGENT, NODE) as bus:
        writer: state.StateWriter[Hold] = state.StateWriter(bus, HOLD, NODE)
        async with running(writer.run()):
            writer.put(hold(NODE, "superseded"))
            writer.put(hold(NODE, "newest"))
            assert not bus.connected
            await stocked.start()
            async with administrator(stocked) as admin:
                get = f"{permissions.DIRECT_GET}.{HOLD.stream}.{KEY}"
                await eventually(lambda: stands(admin.ask(get), "newest"), within=10)
                info = await admin.ask_json(f"$JS.API.STREAM.INFO.{HOLD.stream}")
    assert "'last_seq': 2" in str(info)


async def stands(asking: object, reason: str) -> bool:
    """Whether an answer holds this hold."""
    answer = await asking  # type: ignore[misc]  # a coroutine of `Plain.ask`
    return bool(answer.data) and codec.decode(Hold, answer.data).reason == reason


async def test_reconnects_for_ever(stocked: Broker) -> None:
    """After each of several outages, killed or stopped, values flow again; the latest counts."""
    received: list[state.Received[Hold]] = []
    async with (
        opened(stocked, Role.AGENT, NODE) as agent,
        opened(stocked, Role.ALLOCATOR, NODE) as allocator,
    ):
        writer: state.StateWriter[Hold] = state.StateWriter(agent, HOLD, NODE)
        reader = state.StateReader(allocator, HOLD, NODE, received.append)
        async with running(writer.run(), reader.run()):
            for outage in range(4):
                await eventually(lambda: agent.connected and allocator.connected, within=10)
                await (stocked.kill() if outage % 2 else stocked.stop())
                await eventually(lambda: not agent.connected and not allocator.connected)
                for number in range(3):
                    writer.put(hold(NODE, f"{outage}.{number}"))
                await stocked.restart(lose_store=False)
                await eventually(lambda: reasons(received)[-1:] == [f"{outage}.2"], within=10)  # noqa: B023
    assert reasons(received) == [f"{outage}.2" for outage in range(4)]
    assert agent.reconnects == allocator.reconnects == 4


async def test_a_lost_store_is_filled_again_by_its_writers(stocked: Broker) -> None:
    """NATS comes back empty; the controller makes the streams; readers go on with what is new."""
    received: list[state.Received[Hold]] = []
    async with (
        opened(stocked, Role.CONTROLLER) as controller,
        opened(stocked, Role.AGENT, NODE) as agent,
        opened(stocked, Role.ALLOCATOR, NODE) as allocator,
    ):
        before = await ensure.ensure_streams(controller)
        writer: state.StateWriter[Hold] = state.StateWriter(agent, HOLD, NODE)
        reader = state.StateReader(allocator, HOLD, NODE, received.append)
        async with running(writer.run(), reader.run()):
            for number in range(3):
                writer.put(hold(NODE, str(number)))
                await eventually(lambda: len(received) > number)  # noqa: B023
            await stocked.restart(lose_store=True)
            after = await ensure.ensure_streams(controller)
            await eventually(lambda: len(received) > 3, within=10)
            writer.put(hold(NODE, "after"))
            await eventually(lambda: len(received) > 4, within=10)
    assert after["hold"] > before["hold"]
    assert reasons(received) == ["0", "1", "2", "2", "after"]
    assert received[3].value.stamp.store == after["hold"]
    assert received[3].sequence < received[2].sequence


async def test_a_refused_credential_is_tried_again_and_read_anew(stocked: Broker) -> None:
    """A service with a wrong password, or of an unknown node, enters once that is mended."""
    new = "gpu-new.example"
    user = permissions.user_name(Role.AGENT, new)
    file = stocked.credentials(Role.AGENT, NODE)[1].with_name("later.password")
    file.write_text("wrong")
    async with connection.open_bus(stocked.url, Login(user, file), Role.AGENT, new) as bus:
        await stocked.add_node(new)
        assert not bus.connected
        file.write_text(stocked.credentials(Role.AGENT, new)[1].read_text())
        await eventually(lambda: bus.connected, within=10)


async def test_a_new_node_disturbs_no_connection(stocked: Broker) -> None:
    """Users of a node are added to a server that runs, and everybody else stays connected."""
    async with opened(stocked, Role.AGENT, NODE) as old:
        await eventually(lambda: old.connected)
        await stocked.add_node("gpu-new.example")
        async with opened(stocked, Role.AGENT, "gpu-new.example") as new:
            await eventually(lambda: new.connected)
        assert old.connected
        assert old.reconnects == 0


async def test_an_error_of_the_block_leaves_it_as_it_is(stocked: Broker) -> None:
    """What a caller raises inside `open_bus` is not wrapped into a group."""
    with pytest.raises(KeyError, match="the caller's own"):
        async with opened(stocked, Role.AGENT, NODE):
            raise KeyError("the caller's own")


async def test_nobody_has_made_a_consumer(stocked: Broker) -> None:
    """Readers, writers and the reading of whole streams leave no consumer behind."""
    received: list[state.Received[Hold]] = []
    async with (
        administrator(stocked) as admin,
        opened(stocked, Role.AGENT, NODE) as agent,
        opened(stocked, Role.ALLOCATOR, NODE) as allocator,
    ):
        writer: state.StateWriter[Hold] = state.StateWriter(agent, HOLD, NODE)
        reader = state.StateReader(allocator, HOLD, NODE, received.append)
        async with running(writer.run(), reader.run()):
            writer.put(hold(NODE, "x"))
            await eventually(lambda: received)
            for each in (*table.BUCKETS, *table.LOGS):
                info = await admin.ask_json(f"$JS.API.STREAM.INFO.{each.stream}")
                assert "'consumer_count': 0" in str(info)
