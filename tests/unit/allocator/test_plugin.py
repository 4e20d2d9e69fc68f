"""The service that the kubelet calls, over a real socket: streams, proposals, answers, refusals."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from grpclib import GRPCError, Status, client
from grpclib.config import Configuration

from services.allocator import checkpoint, desk, keeper, plugin
from services.allocator.ledger import State
from shared.contract.facts import Fact, FactKind
from shared.contract.messages import Inventory, Ledger
from shared.contract.mps import HeldForms
from shared.contract.spans import SpanRecord
from shared.domain.sharing import AllocationPolicy
from shared.kubelet import sockets
from shared.kubelet.v1beta1 import api_grpc, api_pb2
from shared.telemetry import spans
from tests.support import hardware, logged, slots
from tests.support.eventually import eventually
from tests.support.running import running
from tests.support.slots import GPU

A, B = slots.named(0, "a", numa=1), slots.named(1, "b")
Answers = client.Stream[api_pb2.Empty, api_pb2.ListAndWatchResponse]


@dataclass
class Told:
    """What went out besides the kubelet's answers."""

    ledgers: list[Ledger] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    spans: list[SpanRecord] = field(default_factory=list)


class Service:
    """One resource's plugin with a keeper behind it."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.told = Told()
        self.ended = 0
        self.socket = folder / "plugin.sock"
        telemetry = spans.Telemetry("allocator", "node-a")
        telemetry.sink = self.told.spans.append
        self.checkpoint = checkpoint.Checkpoint(folder / "ledger.json", "boot-1")
        clock = iter(range(1, 1000))
        self.keeper = keeper.Keeper(
            State(),
            self.checkpoint,
            keeper.Outlets(
                publish=lambda ledger, _: self.told.ledgers.append(ledger),
                tell=lambda fact, _: self.told.facts.append(fact),
                show=lambda standing, parent: self.plugin.show(standing.listed(GPU), parent),
                delivered=self._delivered,
                held=self._held,
            ),
            stamp=hardware.stamp(),
            telemetry=telemetry,
            now_ns=lambda: next(clock) * slots.SECOND,
        )
        self.answers = desk.Desk(self.keeper, telemetry, lambda: None, str)
        self.plugin = plugin.Plugin(GPU, self.answers, telemetry, self._stream_ended)

    async def _held(self, forms: HeldForms) -> None:
        del forms

    async def _delivered(self) -> bool:
        return True

    def _stream_ended(self) -> None:
        self.ended += 1

    def see(self, inventory: Inventory) -> None:
        """Take in an inventory."""
        self.keeper.inventory(inventory, confirmed=True)


@contextlib.asynccontextmanager
async def serving(
    folder: pathlib.Path, inventory: Inventory
) -> AsyncIterator[tuple[Service, api_grpc.DevicePluginStub]]:
    """A service that knows an inventory, and a client of its socket."""
    service = Service(folder)
    service.see(inventory)
    async with (
        sockets.UnixServer(service.socket, [service.plugin]),
        sockets.channel(service.socket) as channel,
        running(service.keeper.run(), service.checkpoint.run()),
    ):
        await eventually(lambda: service.told.ledgers)
        yield service, api_grpc.DevicePluginStub(channel)


async def listen(stream: Answers) -> None:
    await stream.send_message(api_pb2.Empty(), end=True)


async def ids(stream: Answers) -> dict[str, str]:
    message = await stream.recv_message()
    assert message is not None
    return {device.ID: device.health for device in message.devices}


def request(*wanted: list[str]) -> api_pb2.AllocateRequest:
    containers = [api_pb2.ContainerAllocateRequest(devices_ids=slots_) for slots_ in wanted]
    return api_pb2.AllocateRequest(container_requests=containers)


async def test_every_stream_gets_every_change(tmp_path: pathlib.Path) -> None:
    """Two kubelets' streams do not share the messages between them."""
    async with serving(tmp_path, slots.inventory(slots.time_sliced(2), A)) as (service, stub):
        async with stub.ListAndWatch.open() as one, stub.ListAndWatch.open() as two:
            await listen(one)
            await listen(two)
            for stream in (one, two):
                assert await ids(stream) == {"GPU-a::0": "Healthy", "GPU-a::1": "Healthy"}
            service.see(slots.inventory(slots.time_sliced(2), slots.sick(A)))
            for stream in (one, two):
                assert await ids(stream) == {"GPU-a::0": "Unhealthy", "GPU-a::1": "Unhealthy"}
            assert service.plugin.streams == 2
            await one.cancel()
            await two.cancel()
        await eventually(lambda: service.ended == 2)
        assert service.plugin.streams == 0


async def test_changes_that_come_together_are_one_message(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The newest list is sent, and what lists the same is not sent at all."""
    logged.everything(caplog)
    async with (
        serving(tmp_path, slots.inventory(slots.time_sliced(2), A)) as (service, stub),
        stub.ListAndWatch.open() as stream,
    ):
        await listen(stream)
        assert len(await ids(stream)) == 2
        for replicas in (3, 5, 4):
            service.see(slots.inventory(slots.time_sliced(replicas), A))
        assert len(await ids(stream)) == 4
        service.see(slots.inventory(slots.time_sliced(4), A, traceparent="another"))
        service.see(slots.inventory(slots.time_sliced(1), A))
        assert len(await ids(stream)) == 1
        sent = logged.lines(caplog, "the kubelet has a new list of nvidia.com/gpu")
        assert [line.about["slots"] for line in sent] == [2, 4, 1]
        await stream.cancel()


async def test_a_stream_that_is_behind_is_taking_its_list_but_not_for_ever(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that nobody reads must not hide for ever that the kubelet counts with another plugin."""
    async with serving(tmp_path, slots.inventory(slots.time_sliced(4000), A)) as (service, _):
        windows = Configuration(
            http2_connection_window_size=64 * 1024, http2_stream_window_size=64 * 1024
        )
        unread = client.Channel(path=str(service.socket), config=windows)
        async with api_grpc.DevicePluginStub(unread).ListAndWatch.open() as stream:
            await listen(stream)
            await eventually(lambda: service.plugin.taking)
            monkeypatch.setattr(plugin, "TAKING_S", 0.0)
            await eventually(lambda: not service.plugin.taking)
            monkeypatch.undo()
            assert len(await ids(stream)) == 4000
            await eventually(lambda: not service.plugin.taking)
            await stream.cancel()
        unread.close()


async def test_numa_nodes_are_told_where_known(tmp_path: pathlib.Path) -> None:
    """The kubelet aligns by them."""
    async with (
        serving(tmp_path, slots.inventory(slots.time_sliced(1), A, B)) as (_, stub),
        stub.ListAndWatch.open() as stream,
    ):
        await listen(stream)
        message = await stream.recv_message()
        assert message is not None
        nodes = {one.ID: [node.ID for node in one.topology.nodes] for one in message.devices}
        assert nodes == {"GPU-a": [1], "GPU-b": []}
        await stream.cancel()


async def test_all_containers_of_a_request_are_granted(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each gets its own answer; the ledger has them when the answer comes, and a line says so."""
    logged.everything(caplog)
    async with serving(tmp_path, slots.inventory(slots.time_sliced(2), A, B)) as (service, stub):
        answer = await stub.Allocate(request(["GPU-a::0"], ["GPU-b::0", "GPU-a::1"]))
        assert [dict(each.envs) for each in answer.container_responses] == [
            {"NVIDIA_VISIBLE_DEVICES": "GPU-a"},
            {"NVIDIA_VISIBLE_DEVICES": "GPU-a,GPU-b"},
        ]
        first, second = answer.container_responses
        assert {device.permissions for device in first.devices} == {"rw"}
        assert len(second.devices) == len(first.devices) + 1
        written = await checkpoint.Checkpoint(tmp_path / "ledger.json", "boot-1").load(10**12)
        assert len(written.grants) == len(service.keeper.state.grants) == 3
        (line,) = logged.lines(caplog, "3 slots of nvidia.com/gpu handed out")
        assert (line.level, line.about["trace"]) == ("info", service.told.spans[-1].trace_id)


@pytest.mark.parametrize(
    ("wanted", "status", "words"),
    [
        pytest.param(["GPU-a::7"], Status.INVALID_ARGUMENT, "has no slot 'GPU-a::7'", id="unknown"),
        pytest.param(["GPU-a::0", "GPU-a::1"], Status.INVALID_ARGUMENT, "the limit is 1", id="two"),
        pytest.param(["GPU-b::0"], Status.FAILED_PRECONDITION, "GPU-b is sick", id="sick"),
    ],
)
async def test_a_refusal_is_a_status_a_fact_a_span_and_a_line(
    tmp_path: pathlib.Path,
    wanted: list[str],
    status: Status,
    words: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """All of them carry the sentence, and nothing is granted."""
    logged.everything(caplog)
    config = slots.time_sliced(2, one_only=True)
    async with serving(tmp_path, slots.inventory(config, A, slots.sick(B))) as (service, stub):
        with pytest.raises(GRPCError) as refusal:
            await stub.Allocate(request(wanted))
        assert refusal.value.status is status
        assert words in str(refusal.value.message)
        (fact,) = service.told.facts
        assert (fact.kind, fact.sentence) == (FactKind.REFUSED, refusal.value.message)
        assert fact.slots == tuple(wanted)
        span = service.told.spans[-1]
        assert span.error == refusal.value.message
        (line,) = logged.lines(caplog, words)
        assert (line.level, line.about["resource"]) == ("warning", GPU)
        assert line.about["trace"] == span.trace_id
        assert not service.keeper.state.grants


@pytest.mark.parametrize(
    "wanted", [[["GPU-a::0"], ["GPU-a::0"]], [["GPU-a::0", "GPU-a::0"]]], ids=["two", "one"]
)
async def test_a_slot_is_not_granted_twice_in_one_request(
    tmp_path: pathlib.Path, wanted: list[list[str]]
) -> None:
    """Nothing of the request is granted then."""
    config = slots.time_sliced(2)
    async with serving(tmp_path, slots.inventory(config, A)) as (service, stub):
        with pytest.raises(GRPCError, match="names slot GPU-a::0 2 times"):
            await stub.Allocate(request(["GPU-a::1"], *wanted))
        assert not service.keeper.state.grants


async def test_a_call_that_is_broken_off_is_no_grant_in_its_span(tmp_path: pathlib.Path) -> None:
    """It was being written down; whether it counts, the kubelet's next list says."""
    service = Service(tmp_path)
    service.see(slots.inventory(slots.time_sliced(2), A))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):  # at the first wait, which is for the disk
            await service.answers.allocate(GPU, [["GPU-a::0"]])
    assert service.told.spans[-1].error == desk.UNANSWERED


async def test_u019_too_few_gpus_for_distinct_is_an_error(tmp_path: pathlib.Path) -> None:
    """The proposal already fails, before anything is granted."""
    config = slots.time_sliced(2, policy=AllocationPolicy.DISTINCT)
    wish = api_pb2.ContainerPreferredAllocationRequest(
        available_deviceIDs=["GPU-a::1", "GPU-a::0"], allocation_size=2
    )
    async with serving(tmp_path, slots.inventory(config, A)) as (service, stub):
        with pytest.raises(GRPCError) as refusal:
            await stub.GetPreferredAllocation(
                api_pb2.PreferredAllocationRequest(container_requests=[wish])
            )
        assert refusal.value.status is Status.FAILED_PRECONDITION
        assert "2 distinct GPUs needed, 1 available" in service.told.facts[-1].sentence


async def test_options_ask_for_proposals_only(tmp_path: pathlib.Path) -> None:
    """No call before each start of a container."""
    async with serving(tmp_path, slots.inventory(slots.time_sliced(2), A)) as (_, stub):
        options = await stub.GetDevicePluginOptions(api_pb2.Empty())
        assert options.get_preferred_allocation_available
        assert not options.pre_start_required
