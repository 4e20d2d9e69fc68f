"""pod-resources/kubelet.sock: who holds which device, in the real kubelet's shapes.

Each device is a ContainerDevices entry of its own, ids come in random order, init containers are
left out, and a caller that asks too often is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from grpclib import GRPCError, Status, server

from shared.kubelet.podresources.v1 import api_grpc, api_pb2
from shared.runtime import clock
from shared.simulation.kube.kubelet import containers, device_manager

CALLS_PER_SECOND: Final = 100.0
BURST: Final = 10.0


class RateLimit:
    """The kubelet's limit over all callers: a bucket of `BURST` calls that refills. Pure."""

    def __init__(self) -> None:
        self._left = BURST
        self._at = 0.0

    def admits(self, now: float) -> bool:
        """Count a call at this time, unless there were too many before."""
        self._left = min(BURST, self._left + (now - self._at) * CALLS_PER_SECOND)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class PodResources(api_grpc.PodResourcesListerBase):
    """The service. `pods` gives the pods to show: those that run, or finished ones as well."""

    def __init__(
        self,
        manager: device_manager.DeviceManager,
        pods: Callable[[], Iterable[containers.RunningPod]],
    ) -> None:
        self._manager = manager
        self._pods = pods
        self._limit = RateLimit()

    async def List(  # noqa: N802 - the name is the protocol's
        self,
        stream: server.Stream[api_pb2.ListPodResourcesRequest, api_pb2.ListPodResourcesResponse],
    ) -> None:
        """Answer with every pod, also those without devices."""
        await stream.recv_message()
        self._refuse_the_hasty()
        shown = [self._show(pod) for pod in self._pods()]
        await stream.send_message(api_pb2.ListPodResourcesResponse(pod_resources=shown))

    async def Get(  # noqa: N802 - the name is the protocol's
        self,
        stream: server.Stream[api_pb2.GetPodResourcesRequest, api_pb2.GetPodResourcesResponse],
    ) -> None:
        """Answer with one pod."""
        request = await stream.recv_message()
        self._refuse_the_hasty()
        if request is None:
            return
        wanted = f"{request.pod_namespace}/{request.pod_name}"
        found = next((pod for pod in self._pods() if pod.key == wanted), None)
        if found is None:
            message = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
            raise GRPCError(Status.UNKNOWN, message)
        answer = api_pb2.GetPodResourcesResponse(pod_resources=self._show(found))
        await stream.send_message(answer)

    async def GetAllocatableResources(  # noqa: N802 - the name is the protocol's
        self,
        stream: server.Stream[
            api_pb2.AllocatableResourcesRequest, api_pb2.AllocatableResourcesResponse
        ],
    ) -> None:
        """Answer with the healthy devices, held or not."""
        await stream.recv_message()
        self._refuse_the_hasty()
        devices = [
            _entry(resource, device.id, device.numa_nodes)
            for resource, healthy in self._manager.allocatable_devices().items()
            for device in healthy
        ]
        await stream.send_message(api_pb2.AllocatableResourcesResponse(devices=devices))

    def _refuse_the_hasty(self) -> None:
        if not self._limit.admits(clock.loop_time()):
            raise GRPCError(Status.RESOURCE_EXHAUSTED, "rejected by rate limit")

    def _show(self, pod: containers.RunningPod) -> api_pb2.PodResources:
        metadata = pod.manifest["metadata"]
        return api_pb2.PodResources(
            name=metadata["name"],
            namespace=metadata["namespace"],
            containers=[
                api_pb2.ContainerResources(name=name, devices=self._devices(pod.uid, name))
                for name in _long_lived(pod.manifest["spec"])
            ],
        )

    def _devices(self, pod_uid: str, container: str) -> list[api_pb2.ContainerDevices]:
        held = self._manager.held_by(device_manager.Place(pod_uid, container))
        return [_entry(resource, name, ()) for resource, ids in held.items() for name in ids]


def _long_lived(spec: dict[str, Any]) -> list[str]:
    """Name the containers that List shows: an init container that ends is not among them."""
    sidecars = [
        one["name"]
        for one in spec.get("initContainers", ())
        if one.get("restartPolicy") == "Always"
    ]
    return sidecars + [one["name"] for one in spec["containers"]]


def _entry(resource: str, device: str, numa: Iterable[int]) -> api_pb2.ContainerDevices:
    nodes = [api_pb2.NUMANode(ID=node) for node in numa]
    topology = api_pb2.TopologyInfo(nodes=nodes) if nodes else None
    return api_pb2.ContainerDevices(resource_name=resource, device_ids=[device], topology=topology)
