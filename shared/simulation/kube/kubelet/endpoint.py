"""A plugin's socket as the kubelet calls it: protocol messages in and out, errors as sentences."""

from __future__ import annotations

import pathlib
from collections.abc import AsyncIterator, Sequence
from typing import Final

from grpclib import GRPCError, Status, config

from shared.kubelet import sockets
from shared.kubelet.v1beta1 import api_grpc, api_pb2
from shared.simulation.kube.kubelet import device_manager

# The kubelet's gRPC library takes no larger message: about 40,000 devices without topology.
LARGEST_MESSAGE: Final = 4 * 1024 * 1024
DIAL_SECONDS: Final = 10.0
# How far a plugin may send ahead: a long list takes many turns, and is counted after the last.
WINDOW: Final = 64 * 1024

# How a call to a plugin fails.
FAILURES: Final = (*sockets.UNREACHABLE, GRPCError)


class Endpoint:
    """One connection to one plugin, from its registration to the end of its list."""

    def __init__(self, path: pathlib.Path, resource: str) -> None:
        self.resource = resource
        self.name = path.name
        self.preferred_available = False
        windows = config.Configuration(
            http2_connection_window_size=WINDOW, http2_stream_window_size=WINDOW
        )
        self._channel = sockets.Channel(path=str(path), config=windows)
        self._plugin = api_grpc.DevicePluginStub(self._channel)

    async def connect(self) -> None:
        """Ask the plugin for its options; this is what makes the connection."""
        options = await self._plugin.GetDevicePluginOptions(api_pb2.Empty(), timeout=DIAL_SECONDS)
        self.preferred_available = options.get_preferred_allocation_available

    async def lists(self) -> AsyncIterator[tuple[device_manager.Device, ...]]:
        """Yield each list that the plugin sends; ends or fails when the plugin goes."""
        async with self._plugin.ListAndWatch.open() as stream:
            await stream.send_message(api_pb2.Empty(), end=True)
            async for message in stream:
                _check_size(message)
                yield tuple(_device(device) for device in message.devices)

    async def preferred(self, request: device_manager.Request) -> tuple[str, ...]:
        """Ask which of the free devices the plugin would take."""
        wanted = api_pb2.ContainerPreferredAllocationRequest(
            available_deviceIDs=request.available + request.reused,
            must_include_deviceIDs=request.reused,
            allocation_size=request.required,
        )
        answer = await self._plugin.GetPreferredAllocation(
            api_pb2.PreferredAllocationRequest(container_requests=[wanted])
        )
        responses = answer.container_responses
        return tuple(responses[0].deviceIDs) if responses else ()

    async def allocate(self, ids: Sequence[str]) -> api_pb2.ContainerAllocateResponse:
        """Tell the plugin which devices a container gets; return what the container needs."""
        request = api_pb2.ContainerAllocateRequest(devices_ids=ids)
        answer = await self._plugin.Allocate(api_pb2.AllocateRequest(container_requests=[request]))
        if not answer.container_responses:
            raise device_manager.RefusedPodError(
                f"no containers return in allocation response {answer}"
            )
        return answer.container_responses[0]

    def close(self) -> None:
        """Hang up; `lists` ends."""
        self._channel.close()


def sentence(error: Exception) -> str:
    """Say why a call failed as Go's gRPC library says it, for messages that people know."""
    if isinstance(error, GRPCError):
        return f"rpc error: code = {_code(error.status)} desc = {error.message or ''}"
    return f"rpc error: code = Unavailable desc = {error}"


def _code(status: Status) -> str:
    if status is Status.CANCELLED:
        return "Canceled"
    return "".join(word.capitalize() for word in status.name.split("_"))


def _device(device: api_pb2.Device) -> device_manager.Device:
    nodes = tuple(node.ID for node in device.topology.nodes)
    return device_manager.Device(device.ID, device.health == "Healthy", nodes)


def _check_size(message: api_pb2.ListAndWatchResponse) -> None:
    size = message.ByteSize()
    if size > LARGEST_MESSAGE:
        raise GRPCError(
            Status.RESOURCE_EXHAUSTED,
            f"grpc: received message larger than max ({size} vs. {LARGEST_MESSAGE})",
        )
