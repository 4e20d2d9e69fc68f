"""DevicePlugin service of one resource: the kubelet's gRPC ↔ the desk, and lists to every stream.

`endpoint` serves it on a socket of its own. A stream that is slow gets the newest list and no
older one; each change of the list is one message.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from grpclib import GRPCError, Status, server

from services.allocator import desk as desks
from services.allocator import grant, preference
from services.allocator.standing import Slot
from shared.kubelet.v1beta1 import api_grpc, api_pb2
from shared.runtime import clock, latest, logs
from shared.telemetry import catalogue, spans

log = logging.getLogger(__name__)
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"
TAKING_S = 10.0  # a stream that has not taken a list by then is not read at all
Listing = tuple[tuple[str, str, int | None], ...]  # id, health, NUMA node


@dataclass(frozen=True, slots=True)
class _Shown:
    """A list to be sent; `step` ends with the first stream that has it."""

    number: int
    message: api_pb2.ListAndWatchResponse
    step: spans.Step | None


@dataclass(eq=False, slots=True)
class _Stream:
    """A ListAndWatch that is open: lists it is to have, and the number of the newest it has had."""

    box: latest.Latest[_Shown]
    had: int = -1


class Plugin(api_grpc.DevicePluginBase):
    """One resource's service. `on_stream_end` is called when a ListAndWatch stream ends."""

    def __init__(
        self,
        resource: str,
        desk: desks.Desk,
        telemetry: spans.Telemetry,
        on_stream_end: Callable[[], None],
    ) -> None:
        self.resource = resource
        self.listing: Listing = ()
        self._desk = desk
        self._telemetry = telemetry
        self._on_stream_end = on_stream_end
        self._shown = _Shown(0, api_pb2.ListAndWatchResponse(), None)
        self._streams: list[_Stream] = []  # in the order in which they were opened
        self._owed_since = 0.0  # loop time at which a stream was last given something to take
        self._calls = 0
        self._delivered = 0
        self._moved = asyncio.Condition()

    @property
    def streams(self) -> int:
        """How many ListAndWatch streams are open."""
        return len(self._streams)

    @property
    def taking(self) -> bool:
        """Whether the newest stream is still taking the newest list.

        A long list takes many turns, for a kubelet lets us send 64 KiB ahead. Until it has all of
        it, it counts by the list before.
        """
        behind = bool(self._streams) and self._streams[-1].had < self._shown.number
        return behind and clock.loop_time() - self._owed_since < TAKING_S

    def show(self, slots: Sequence[Slot], traceparent: str) -> None:
        """Let every stream have this list, if it differs from the last."""
        listing = tuple(_listed(slot) for slot in slots)
        if listing == self.listing:
            return
        self.listing = listing
        self._telemetry.meters.count(catalogue.LISTS, resource=self.resource)
        step = self._telemetry.begin("send list", traceparent)
        self._shown = _Shown(self._shown.number + 1, _message(listing), step)
        self._owed_since = clock.loop_time()
        for stream in self._streams:
            stream.box.put(self._shown)

    def show_again(self) -> None:
        """Let every stream have the list once more: the kubelet may hold somebody else's."""
        for stream in self._streams:
            stream.box.put(self._shown)

    async def delivered(self) -> None:
        """Wait until a stream has had the newest list."""
        number = self._shown.number
        async with self._moved:
            await self._moved.wait_for(lambda: self._delivered >= number)

    async def idle(self) -> None:
        """Wait until no Allocate is being answered."""
        async with self._moved:
            await self._moved.wait_for(lambda: self._calls == 0)

    async def GetDevicePluginOptions(  # noqa: N802 - the protocol's name
        self, stream: server.Stream[api_pb2.Empty, api_pb2.DevicePluginOptions]
    ) -> None:
        """Say that proposals are wanted and a call before each start is not."""
        await stream.recv_message()
        await stream.send_message(options())

    async def ListAndWatch(  # noqa: N802 - the protocol's name
        self, stream: server.Stream[api_pb2.Empty, api_pb2.ListAndWatchResponse]
    ) -> None:
        """Send the list now and after each change, until the kubelet hangs up."""
        await stream.recv_message()
        opened = _Stream(latest.Latest())
        opened.box.put(self._shown)
        self._owed_since = clock.loop_time()
        self._streams.append(opened)
        try:
            while True:
                shown = await opened.box.get()
                await stream.send_message(shown.message)
                opened.had = shown.number
                await self._sent(shown)
        finally:
            self._streams.remove(opened)
            self._on_stream_end()

    async def GetPreferredAllocation(  # noqa: N802 - the protocol's name
        self,
        stream: server.Stream[
            api_pb2.PreferredAllocationRequest, api_pb2.PreferredAllocationResponse
        ],
    ) -> None:
        """Propose slots for each container."""
        request = await stream.recv_message()
        if request is None:
            return
        with _as_status():
            proposals = [
                self._desk.prefer(self.resource, _wish(wish)) for wish in request.container_requests
            ]
        answers = [api_pb2.ContainerPreferredAllocationResponse(deviceIDs=ids) for ids in proposals]
        await stream.send_message(api_pb2.PreferredAllocationResponse(container_responses=answers))

    async def Allocate(  # noqa: N802 - the protocol's name
        self, stream: server.Stream[api_pb2.AllocateRequest, api_pb2.AllocateResponse]
    ) -> None:
        """Grant slots and say what the containers need."""
        request = await stream.recv_message()
        if request is None:
            return
        self._calls += 1
        try:
            with _as_status():
                answers = await self._desk.allocate(
                    self.resource, [list(each.devices_ids) for each in request.container_requests]
                )
            responses = [_response(answer) for answer in answers]
            await stream.send_message(api_pb2.AllocateResponse(container_responses=responses))
        finally:
            self._calls -= 1
            await self._notify()

    async def PreStartContainer(  # noqa: N802 - the protocol's name
        self,
        stream: server.Stream[api_pb2.PreStartContainerRequest, api_pb2.PreStartContainerResponse],
    ) -> None:
        """Answer a call that our options do not ask for."""
        await stream.recv_message()
        await stream.send_message(api_pb2.PreStartContainerResponse())

    async def _sent(self, shown: _Shown) -> None:
        if shown.number <= self._delivered:
            return
        self._delivered = shown.number
        if shown.step is not None:
            attributes: dict[str, spans.Attribute] = {
                "resource": self.resource,
                "slots": len(self.listing),
                "healthy": sum(health == HEALTHY for _, health, _ in self.listing),
            }
            self._telemetry.end(shown.step, attributes=attributes, end_ns=clock.now_ns())
            told = logs.about(**attributes, trace=shown.step.trace_id)
            log.info("the kubelet has a new list of %s", self.resource, extra=told)
        await self._notify()

    async def _notify(self) -> None:
        async with self._moved:
            self._moved.notify_all()


def options() -> api_pb2.DevicePluginOptions:
    """What a registration and the kubelet's question are told."""
    return api_pb2.DevicePluginOptions(
        pre_start_required=False, get_preferred_allocation_available=True
    )


@contextlib.contextmanager
def _as_status() -> Iterator[None]:
    """Turn refusals into the status and sentence that end in the pod's message."""
    try:
        yield
    except grant.InvalidRequestError as error:
        raise GRPCError(Status.INVALID_ARGUMENT, str(error)) from error
    except (grant.WithheldError, preference.NotEnoughGpusError) as error:
        raise GRPCError(Status.FAILED_PRECONDITION, str(error)) from error


def _wish(wish: api_pb2.ContainerPreferredAllocationRequest) -> preference.Request:
    return preference.Request(
        available=frozenset(wish.available_deviceIDs),
        must_include=frozenset(wish.must_include_deviceIDs),
        size=wish.allocation_size,
    )


def _listed(slot: Slot) -> tuple[str, str, int | None]:
    return slot.id, UNHEALTHY if slot.trouble else HEALTHY, slot.device.numa_node


def _message(listing: Listing) -> api_pb2.ListAndWatchResponse:
    return api_pb2.ListAndWatchResponse(
        devices=[
            api_pb2.Device(ID=slot, health=health, topology=_topology(node))
            for slot, health, node in listing
        ]
    )


def _topology(node: int | None) -> api_pb2.TopologyInfo | None:
    return None if node is None else api_pb2.TopologyInfo(nodes=[api_pb2.NUMANode(ID=node)])


def _response(answer: grant.Answer) -> api_pb2.ContainerAllocateResponse:
    return api_pb2.ContainerAllocateResponse(
        envs=dict(answer.envs),
        devices=[
            api_pb2.DeviceSpec(container_path=inside, host_path=host, permissions="rw")
            for inside, host in answer.nodes
        ],
        mounts=[
            api_pb2.Mount(container_path=inside, host_path=host) for inside, host in answer.folders
        ],
    )
