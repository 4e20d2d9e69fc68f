"""The allocator on a real nats-server: inventory and hold in; ledger, facts and spans out."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import AsyncIterator

import pytest

from shared.bus import connection, ensure, fleet, logs, state
from shared.bus.connection import Bus
from shared.bus.login import Login
from shared.contract import table
from shared.contract.facts import FactKind
from shared.contract.generation import Generation
from shared.contract.messages import Hold, Inventory, Ledger, SlotCounts
from shared.contract.spans import SpanRecord
from shared.contract.table import Role
from shared.domain.sharing import AllocationPolicy
from shared.domain.slots import SlotState
from shared.runtime import clock
from shared.simulation.broker import Broker
from shared.telemetry import context
from tests.integration.allocator.rig import Rig, rig
from tests.support import hardware, slots
from tests.support.eventually import eventually
from tests.support.one_node import GPU, NAME, pod_object
from tests.support.running import running

A, B = slots.named(0, "a"), slots.named(1, "b")
FIRST, SECOND = (f"00-{digit * 32}-{digit * 16}-01" for digit in ("1", "2"))


class Hands:
    """An advertiser's and an agent's hands on the bus, a controller's ears, a command's eyes."""

    def __init__(
        self,
        command: Bus,
        inventory: state.StateWriter[Inventory],
        hold: state.StateWriter[Hold],
        ledgers: list[Ledger],
    ) -> None:
        self.command = command
        self.inventory = inventory
        self.hold = hold
        self.ledgers = ledgers

    def advertise(self, replicas: int, traceparent: str, generation: Generation) -> None:
        """Publish x`replicas` on both GPUs."""
        config = slots.time_sliced(replicas, policy=AllocationPolicy.PACKED)
        stamp = hardware.stamp(generation, NAME)
        told = slots.inventory(config, A, B, traceparent=traceparent, stamp=stamp)
        self.inventory.put(told, traceparent)

    def counts(self, gpu: str) -> SlotCounts | None:
        """The newest counts of a GPU."""
        rows = self.ledgers[-1].counts if self.ledgers else ()
        return next((row.counts for row in rows if row.gpu_uuid == gpu), None)

    async def spans(self, name: str) -> list[SpanRecord]:
        """Finished spans of a name."""
        return [span for span in await logs.read_spans(self.command) if span.name == name]

    async def facts(self, kind: FactKind) -> list[str]:
        """Sentences of a kind."""
        return [fact.sentence for fact in await logs.read_facts(self.command, NAME, kind)]


@pytest.fixture
async def broker(short: pathlib.Path) -> AsyncIterator[Broker]:
    """A running nats-server that knows the node."""
    broker = Broker(short / "bus", [NAME])
    await broker.start()
    yield broker
    await broker.stop()


def opened(
    broker: Broker, role: Role, node: str = ""
) -> contextlib.AbstractAsyncContextManager[Bus]:
    return connection.open_bus(broker.url, Login(*broker.credentials(role, node)), role, node)


@contextlib.asynccontextmanager
async def hands(broker: Broker) -> AsyncIterator[Hands]:
    """Streams are made; writers and readers run."""
    ledgers: list[Ledger] = []
    async with (
        opened(broker, Role.CONTROLLER) as controller,
        opened(broker, Role.ADVERTISER, NAME) as advertiser,
        opened(broker, Role.AGENT, NAME) as agent,
        opened(broker, Role.COMMAND) as command,
    ):
        await ensure.ensure_streams(controller)
        inventory: state.StateWriter[Inventory] = state.StateWriter(
            advertiser, table.bucket("inventory"), NAME
        )
        hold: state.StateWriter[Hold] = state.StateWriter(agent, table.bucket("hold"), NAME)
        reader: fleet.FleetReader[Ledger] = fleet.FleetReader(
            controller, table.bucket("ledger"), lambda _, received: ledgers.append(received.value)
        )
        async with running(inventory.run(), hold.run(), reader.run()):
            yield Hands(command, inventory, hold, ledgers)


@contextlib.asynccontextmanager
async def whole(folder: pathlib.Path, broker: Broker) -> AsyncIterator[tuple[Rig, Hands]]:
    """Kubelet, bus and a serving allocator."""
    async with rig(folder, broker=broker) as here, hands(broker) as there, here.serving():
        yield here, there


async def _counts(here: Rig, wanted: tuple[int, int]) -> bool:
    return await here.node.counts(GPU) == wanted


async def test_a_change_is_one_trace_down_to_the_list(short: pathlib.Path, broker: Broker) -> None:
    """U011: each list that the kubelet gets is a span of the change that it answers."""
    async with whole(short, broker) as (here, there):
        there.advertise(4, FIRST, Generation(1, 1))
        await eventually(lambda: _counts(here, (8, 8)))
        there.advertise(2, SECOND, Generation(1, 2))
        await eventually(lambda: _counts(here, (4, 4)))
        assert here.node.kubelet.record.registrations == {GPU: 1}

        async def both() -> bool:
            return len(await there.spans("send list")) == 2

        await eventually(both)
        spans = await there.spans("send list")
        assert [span.trace_id for span in spans] == ["1" * 32, "2" * 32]
        assert [span.parent_id for span in spans] == ["1" * 16, "2" * 16]
        assert spans[1].attributes == {"resource": GPU, "slots": 4, "healthy": 4}
        assert there.ledgers[-1].stamp.generation == Generation(1, 2)


async def test_an_allocate_is_a_trace_of_its_own_that_names_the_change(
    short: pathlib.Path, broker: Broker
) -> None:
    """U021: policy, resource and slots stand in the span; the ledger row leads to it."""
    async with whole(short, broker) as (here, there):
        there.advertise(4, FIRST, Generation(1, 1))
        await eventually(lambda: _counts(here, (8, 8)))
        await here.node.create(pod_object("p", {GPU: 1}))
        await eventually(lambda: there.ledgers and there.ledgers[-1].rows)
        await eventually(lambda: there.ledgers[-1].rows[0].holder)
        (row,) = there.ledgers[-1].rows
        assert (row.slot, row.state, row.holder) == (
            "GPU-a::0",
            SlotState.HELD,
            slots.holder("p", "c0"),
        )
        await eventually(lambda: there.spans("allocate slots"))
        (span,) = await there.spans("allocate slots")
        assert span.trace_id == row.trace
        assert [context.trace_id(link) for link in span.links] == ["1" * 32]
        assert span.attributes["policy"] == "packed"
        assert span.attributes["slots"] == "GPU-a::0"
        assert there.counts("GPU-a") == SlotCounts(free=3, held=1)
        await eventually(lambda: there.spans("rebuild ledger"))
        assert await there.facts(FactKind.GRANTED) == [
            "1 slot of nvidia.com/gpu handed out; the pod is not known yet",
            "default/p (container c0) holds 1 slot of nvidia.com/gpu",
        ]
        await here.node.delete("p")
        await eventually(lambda: there.counts("GPU-a") == SlotCounts(free=4), within=30)
        assert len(await there.facts(FactKind.RELEASED)) == 1


async def test_a_hold_is_acknowledged_when_its_slots_are_off_the_list(
    short: pathlib.Path, broker: Broker
) -> None:
    """The kubelet sees them no more, the file has the hold, and the ledger says for whom."""
    async with whole(short, broker) as (here, there):
        there.advertise(2, FIRST, Generation(1, 1))
        await eventually(lambda: _counts(here, (4, 4)))
        stamp = hardware.stamp(Generation(1, 7), NAME)
        there.hold.put(Hold(stamp=stamp, slots=("GPU-b::0", "GPU-b::1"), reason="MIG change"))
        await eventually(lambda: there.ledgers[-1].held_for == Generation(1, 7))
        await eventually(lambda: _counts(here, (2, 2)))
        memory = await here.memory()
        assert memory is not None
        assert memory.hold is not None
        assert there.counts("GPU-b") == SlotCounts(unhealthy=2)
        there.hold.put(Hold(stamp=hardware.stamp(Generation(1, 8), NAME)))
        await eventually(lambda: _counts(here, (4, 4)))
        await eventually(lambda: there.ledgers[-1].held_for is None)


async def test_nothing_that_the_kubelet_asks_waits_for_the_bus(
    short: pathlib.Path, broker: Broker
) -> None:
    """With the server gone pods start, and afterwards the ledger says so."""
    async with whole(short, broker) as (here, there):
        there.advertise(4, FIRST, Generation(1, 1))
        await eventually(lambda: _counts(here, (8, 8)))
        await broker.kill()
        await here.node.create(pod_object("p", {GPU: 1}))

        async def runs() -> bool:
            return await here.node.phase("p") == "Running"

        await eventually(runs)
        await broker.restart(lose_store=False)
        await eventually(lambda: there.counts("GPU-a") == SlotCounts(free=3, held=1), within=15)


async def test_a_refused_pod_is_a_fact_and_a_span_with_an_error(
    short: pathlib.Path, broker: Broker
) -> None:
    """Both carry the sentence that the pod ends with."""
    async with whole(short, broker) as (here, there):
        config = slots.time_sliced(4, one_only=True)
        there.inventory.put(
            slots.inventory(config, A, stamp=hardware.stamp(Generation(1, 1), NAME))
        )
        await eventually(lambda: _counts(here, (4, 4)))
        await here.node.create(pod_object("p", {GPU: 2}))
        await eventually(lambda: there.facts(FactKind.REFUSED))
        (sentence,) = await there.facts(FactKind.REFUSED)
        assert "2 slots requested, the limit is 1" in sentence
        await eventually(lambda: there.spans("allocate slots"))
        (span,) = await there.spans("allocate slots")
        assert (span.ok, span.error) == (False, sentence)


async def test_an_idle_allocator_writes_nothing(short: pathlib.Path, broker: Broker) -> None:
    """Lists that say the same as before are no news to anybody."""
    async with whole(short, broker) as (here, there):
        there.advertise(4, FIRST, Generation(1, 1))
        await eventually(lambda: _counts(here, (8, 8)))
        await eventually(lambda: there.counts("GPU-a"))
        await clock.sleep(1)
        ledgers, lists = len(there.ledgers), len(here.node.kubelet.record.lists)
        await clock.sleep(2)  # four Lists
        assert (len(there.ledgers), len(here.node.kubelet.record.lists)) == (ledgers, lists)
