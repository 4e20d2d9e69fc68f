"""Tombstones on a real server: readers of the fleet forget a node, one that lives comes back."""

from __future__ import annotations

import pytest

from shared.bus import burying, ensure, fleet, state
from shared.contract import codec, permissions, table
from shared.contract.messages import Hold, Intent
from shared.contract.table import Role
from shared.simulation.broker import Broker
from tests.integration.bus.rig import NODE, OTHER, administrator, hold, intent, opened
from tests.support.eventually import eventually
from tests.support.running import running

HOLD, INTENT = table.bucket("hold"), table.bucket("intent")
TOKEN = table.node_token(NODE)
GET = f"{permissions.DIRECT_GET}.{HOLD.stream}.{HOLD.key(TOKEN)}"


class Seen:
    """What a reader of all nodes has now."""

    def __init__(self) -> None:
        self.now: dict[str, str] = {}
        self.gone: list[str] = []

    def value(self, node: str, received: state.Received[Hold]) -> None:
        """Take a newer value."""
        self.now[node] = received.value.reason

    def buried(self, node: str) -> None:
        """Forget a node."""
        self.gone.append(node)
        self.now.pop(node, None)


async def test_a_buried_node_is_gone_for_those_who_read_all_nodes(stocked: Broker) -> None:
    """For who has read it, and for who comes later; the controller may, and others stay."""
    before, after = Seen(), Seen()
    async with opened(stocked, Role.CONTROLLER) as bus, administrator(stocked) as admin:
        stores = await ensure.ensure_streams(bus)
        for node in (NODE, OTHER):
            value = codec.encode(hold(node, "held", stores["hold"]))
            await admin.ask(HOLD.key(table.node_token(node)), value)
        await admin.ask(INTENT.key(TOKEN), codec.encode(intent(NODE, "old", stores["intent"])))
        first = fleet.FleetReader(bus, HOLD, before.value, on_gone=before.buried)
        async with running(first.run()):
            await eventually(lambda: len(before.now) == 2)
            await burying.bury(bus, NODE)
            await eventually(lambda: before.now == {OTHER: "held"})
        later = fleet.FleetReader(bus, HOLD, after.value, on_gone=after.buried)
        async with running(later.run()):
            await later.looked.wait()
        answer = await admin.ask(f"{permissions.DIRECT_GET}.{INTENT.stream}.{INTENT.key(TOKEN)}")
    assert before.gone == [NODE]
    assert after.now == {OTHER: "held"}
    assert answer.data == b""
    assert answer.headers is not None
    assert answer.headers[table.STORE_HEADER] == str(stores["intent"])


@pytest.mark.parametrize("store", ["", "-1", "²", "9" * 4000 + "9" * 301, "1 " * 9])
async def test_a_tombstone_of_no_store_is_passed_over(stocked: Broker, store: str) -> None:
    """A node may write one under its own key: whoever reads all nodes goes on reading them."""
    seen = Seen()
    async with opened(stocked, Role.CONTROLLER) as bus, administrator(stocked) as admin:
        stores = await ensure.ensure_streams(bus)
        reader = fleet.FleetReader(bus, HOLD, seen.value, on_gone=seen.buried)
        async with running(reader.run()):
            await reader.looked.wait()
            await admin.ask(HOLD.key(TOKEN), b"", **{table.STORE_HEADER: store})
            await admin.ask(HOLD.key(OTHER), codec.encode(hold(OTHER, "held", stores["hold"])))
            await eventually(lambda: seen.now == {OTHER: "held"})
    assert not seen.gone


async def test_a_node_that_lives_writes_over_its_tombstone(stocked: Broker) -> None:
    """Its own reader keeps what it had meanwhile, and those of all nodes have it back."""
    seen, own = Seen(), Seen()
    async with (
        opened(stocked, Role.CONTROLLER) as bus,
        opened(stocked, Role.AGENT, NODE) as agent,
        opened(stocked, Role.ALLOCATOR, NODE) as allocator,
    ):
        await ensure.ensure_streams(bus)
        writer: state.StateWriter[Hold] = state.StateWriter(agent, HOLD, NODE)
        reads_all = fleet.FleetReader(bus, HOLD, seen.value, on_gone=seen.buried)
        reads_own: state.StateReader[Hold] = state.StateReader(
            allocator, HOLD, NODE, lambda received: own.value(NODE, received)
        )
        async with running(writer.run(), reads_all.run(), reads_own.run()):
            writer.put(hold(NODE, "held"))
            await eventually(lambda: seen.now and own.now)
            await burying.bury(bus, NODE)
            await eventually(lambda: seen.gone)
            await eventually(lambda: seen.now == {NODE: "held"}, within=10)
            assert own.now == {NODE: "held"}


async def test_the_writer_of_the_fleet_lets_go_of_a_node(stocked: Broker) -> None:
    """What it put for the node does not rise over the tombstone; others go on."""
    seen: dict[str, str] = {}
    gone: list[str] = []
    async with opened(stocked, Role.CONTROLLER) as bus, administrator(stocked) as admin:
        await ensure.ensure_streams(bus)
        writer: fleet.FleetWriter[Intent] = fleet.FleetWriter(bus, INTENT)
        reader: fleet.FleetReader[Intent] = fleet.FleetReader(
            bus,
            INTENT,
            lambda node, received: seen.update({node: received.value.source.key}),
            on_gone=gone.append,
        )
        async with running(writer.run(), reader.run()):
            writer.put(NODE, intent(NODE, "old"))
            await eventually(lambda: NODE in seen)
            writer.forget(NODE)
            await burying.bury(bus, NODE)
            await eventually(lambda: gone)
            writer.put(OTHER, intent(OTHER, "new"))
            await eventually(lambda: OTHER in seen)
        answer = await admin.ask(f"{permissions.DIRECT_GET}.{INTENT.stream}.{INTENT.key(TOKEN)}")
    assert answer.data == b""


async def test_a_tombstone_goes_by_itself(stocked: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store keeps nothing of a name that never comes back, and neither do readers."""
    monkeypatch.setattr(table, "TOMBSTONE_S", 1)
    seen = Seen()
    async with opened(stocked, Role.CONTROLLER) as bus, administrator(stocked) as admin:
        stores = await ensure.ensure_streams(bus)
        await admin.ask(HOLD.key(TOKEN), codec.encode(hold(NODE, "held", stores["hold"])))
        reader = fleet.FleetReader(bus, HOLD, seen.value, look_every=0.1, on_gone=seen.buried)
        async with running(reader.run()):
            await eventually(lambda: seen.now)
            await burying.bury(bus, NODE)
            assert (await admin.ask(GET)).headers is not None
            await eventually(lambda: seen.gone and not reader._receptions, within=15)
            headers = (await admin.ask(GET)).headers or {}
            assert headers.get("Status") == "404"


async def test_nothing_is_written_where_nothing_stands(stocked: Broker) -> None:
    """A second burial writes no second tombstone."""
    async with opened(stocked, Role.CONTROLLER) as bus, administrator(stocked) as admin:
        stores = await ensure.ensure_streams(bus)
        await admin.ask(HOLD.key(TOKEN), codec.encode(hold(NODE, "held", stores["hold"])))
        for _ in range(2):
            await burying.bury(bus, NODE)
        info = await admin.ask_json(f"$JS.API.STREAM.INFO.{HOLD.stream}")
    assert isinstance(info["state"], dict)
    assert info["state"]["last_seq"] == 3  # its store, the value, one tombstone
