"""A whole device plugin, small: what the allocator is to a kubelet, without GPUs."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from grpclib import GRPCError, Status, server

from shared.kubelet import sockets
from shared.kubelet.v1beta1 import api_grpc, api_pb2

Answer = Callable[[Sequence[str]], api_pb2.ContainerAllocateResponse]


def with_environment(ids: Sequence[str]) -> api_pb2.ContainerAllocateResponse:
    """Answer an Allocate with the ids in the environment and a device node that every host has."""
    return api_pb2.ContainerAllocateResponse(
        envs={"DEVICES": ",".join(sorted(ids))},
        devices=[
            api_pb2.DeviceSpec(
                container_path="/dev/nvidia0", host_path="/dev/null", permissions="rw"
            )
        ],
    )


def by_cdi(ids: Sequence[str]) -> api_pb2.ContainerAllocateResponse:
    """Answer an Allocate with the CDI names of the ids."""
    return api_pb2.ContainerAllocateResponse(
        cdi_devices=[api_pb2.CDIDevice(name=f"vendor.test/gpu={name}") for name in sorted(ids)]
    )


class Plugin(api_grpc.DevicePluginBase):
    """Serves one resource on one socket; an async context manager that also registers.

    Attributes:
        preferred: ids to propose, in order; None where the plugin doesn't offer proposals.
        refusal: the sentence with which Allocate fails, empty to answer.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        devices: Mapping[str, bool],
        *,
        resource: str = "nvidia.com/gpu",
        endpoint: str = "gpu.sock",
        preferred: Sequence[str] | None = None,
        answer: Answer = with_environment,
    ) -> None:
        self.folder = folder
        self.resource = resource
        self.endpoint = endpoint
        self.preferred = preferred
        self.refusal = ""
        self.preferred_requests: list[api_pb2.ContainerPreferredAllocationRequest] = []
        self.allocated: list[tuple[str, ...]] = []
        self.streams = 0
        self._answer = answer
        self._devices = dict(devices)
        self._changed = asyncio.Condition()
        self._server = sockets.UnixServer(folder / endpoint, [self])

    async def __aenter__(self) -> Self:
        await self._server.start()
        await self.register()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._server.close()

    async def serve_again(self) -> None:
        """Make the socket anew and register: what a plugin does after a kubelet restart."""
        await self._server.close()
        self._server = sockets.UnixServer(self.folder / self.endpoint, [self])
        await self._server.start()
        await self.register()

    async def register(self, *, resource: str | None = None, version: str = "v1beta1") -> None:
        """Register at the kubelet of the folder."""
        request = api_pb2.RegisterRequest(
            version=version, endpoint=self.endpoint, resource_name=resource or self.resource
        )
        async with sockets.channel(self.folder / "kubelet.sock") as channel:
            await api_grpc.RegistrationStub(channel).Register(request, timeout=5)

    async def send(self, devices: Mapping[str, bool]) -> None:
        """List these devices from now on (id -> healthy)."""
        async with self._changed:
            self._devices = dict(devices)
            self._changed.notify_all()

    async def GetDevicePluginOptions(  # noqa: N802
        self, stream: server.Stream[api_pb2.Empty, api_pb2.DevicePluginOptions]
    ) -> None:
        """Say whether proposals are offered."""
        await stream.recv_message()
        offered = self.preferred is not None
        await stream.send_message(
            api_pb2.DevicePluginOptions(get_preferred_allocation_available=offered)
        )

    async def ListAndWatch(  # noqa: N802
        self, stream: server.Stream[api_pb2.Empty, api_pb2.ListAndWatchResponse]
    ) -> None:
        """Send the whole list, and again at each change."""
        await stream.recv_message()
        self.streams += 1
        try:
            async with self._changed:
                while True:
                    await stream.send_message(_listed(self._devices))
                    await self._changed.wait()
        finally:
            self.streams -= 1

    async def GetPreferredAllocation(  # noqa: N802
        self,
        stream: server.Stream[
            api_pb2.PreferredAllocationRequest, api_pb2.PreferredAllocationResponse
        ],
    ) -> None:
        """Propose `preferred`."""
        request = await stream.recv_message()
        assert request is not None
        self.preferred_requests.extend(request.container_requests)
        proposal = api_pb2.ContainerPreferredAllocationResponse(deviceIDs=self.preferred or ())
        await stream.send_message(
            api_pb2.PreferredAllocationResponse(container_responses=[proposal])
        )

    async def Allocate(  # noqa: N802
        self, stream: server.Stream[api_pb2.AllocateRequest, api_pb2.AllocateResponse]
    ) -> None:
        """Note the ids and answer, or refuse."""
        request = await stream.recv_message()
        assert request is not None
        if self.refusal:
            raise GRPCError(Status.UNKNOWN, self.refusal)
        ids = [tuple(one.devices_ids) for one in request.container_requests]
        self.allocated.extend(ids)
        answers = [self._answer(one) for one in ids]
        await stream.send_message(api_pb2.AllocateResponse(container_responses=answers))

    async def PreStartContainer(  # noqa: N802
        self,
        stream: server.Stream[api_pb2.PreStartContainerRequest, api_pb2.PreStartContainerResponse],
    ) -> None:
        """Never asked: the options don't offer it."""
        raise GRPCError(Status.UNIMPLEMENTED, "not offered")


def _listed(devices: Mapping[str, bool]) -> api_pb2.ListAndWatchResponse:
    return api_pb2.ListAndWatchResponse(
        devices=[
            api_pb2.Device(ID=name, health="Healthy" if healthy else "Unhealthy")
            for name, healthy in devices.items()
        ]
    )
