"""A node as tests see it, whoever plays the kubelet: pods, a node object, sockets, holders."""

from __future__ import annotations

import abc
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from shared.kubelet import sockets
from shared.kubelet.podresources.v1 import api_grpc, api_pb2
from shared.simulation.kube import api_client, paths
from tests.support import eventually

NAME = "gpu-a"
GPU = "nvidia.com/gpu"
IMAGE = "slicewire.test/pause:1"  # waits to be ended; the real cluster makes one of that name
NAMESPACE = "default"
TERMINAL = ("Succeeded", "Failed")


class Kubelet(Protocol):
    """What a test does to a kubelet; all wait until it is done."""

    plugins_folder: pathlib.Path
    pod_resources_socket: pathlib.Path

    async def start(self) -> None:
        """Start, and wait until both sockets are served."""

    async def stop(self) -> None:
        """Stop as at a SIGTERM; containers go on."""

    async def kill(self) -> None:
        """Stop as at a SIGKILL."""

    async def restart(self) -> None:
        """Stop and start."""

    async def finish(self, pod: str, exit_code: int = 0) -> None:
        """End the containers of `namespace/name` by themselves, as a job's do."""


@dataclass(frozen=True)
class Inside:
    """What a container finds in itself: its environment, and device nodes by their path."""

    environment: Mapping[str, str]
    devices: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class NodeView(abc.ABC):
    """One node of a cluster.

    Attributes:
        api: the cluster, as its administrator.
        kubelet: who runs the node.
        patience: seconds within which anything that is waited for has to come.
        every: seconds between two looks for it.
        name: the node's, in Kubernetes.
    """

    api: api_client.ApiClient
    kubelet: Kubelet
    patience: float
    every: float = 0.01
    name: str = NAME

    @abc.abstractmethod
    async def inside(self, pod: str, container: str = "c0") -> Inside:
        """Look around in a container that runs."""

    @property
    def plugins(self) -> pathlib.Path:
        """The folder where plugins put their sockets."""
        return self.kubelet.plugins_folder

    async def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Create a pod."""
        return await self.api.create(paths.pods_in(NAMESPACE), manifest)

    async def read(self, name: str) -> dict[str, Any]:
        """Read a pod."""
        return await self.api.get(f"{paths.pods_in(NAMESPACE)}/{name}")

    async def phase(self, name: str) -> str:
        """Return a pod's phase, "" while it has none."""
        pod = await self.read(name)
        return str(pod["status"].get("phase", ""))

    async def delete(self, name: str, grace: int | None = None) -> None:
        """Delete a pod with its own grace, or another."""
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        await self.api.delete(f"{paths.pods_in(NAMESPACE)}/{name}", options)

    async def names(self) -> set[str]:
        """Name the pods that exist."""
        listed = await self.api.get(paths.pods_in(NAMESPACE))
        return {item["metadata"]["name"] for item in listed["items"]}

    async def warnings(self, pod: str) -> list[str]:
        """Reasons of the warning Events about a pod."""
        listed = await self.api.get(paths.events(NAMESPACE))
        return [
            item["reason"]
            for item in listed["items"]
            if item["involvedObject"]["name"] == pod and item["type"] == "Warning"
        ]

    async def counts(self, resource: str = GPU) -> tuple[int, int] | None:
        """Return the node object's capacity and allocatable, None where it has no such resource."""
        node = await self.api.get(paths.node(self.name))
        status = node.get("status", {})
        if resource not in status.get("capacity", {}):
            return None
        return int(status["capacity"][resource]), int(status["allocatable"][resource])

    async def until_counts(self, expected: tuple[int, int] | None, resource: str = GPU) -> None:
        """Wait for the node object to say this capacity and allocatable."""

        async def said() -> bool:
            return await self.counts(resource) == expected

        await eventually.eventually(said, within=self.patience, every=self.every)

    async def until_phase(self, name: str, phase: str) -> dict[str, Any]:
        """Wait for a pod to be in a phase; return it."""

        async def reached() -> bool:
            pod = await self.read(name)
            found = pod["status"].get("phase")
            if found in TERMINAL and found != phase:
                raise AssertionError(f"{name} has ended: {pod['status']}")
            return bool(found == phase)

        await eventually.eventually(reached, within=self.patience, every=self.every)
        return await self.read(name)

    async def until_gone(self, name: str) -> None:
        """Wait for a pod object to be gone."""

        async def gone() -> bool:
            return name not in await self.names()

        await eventually.eventually(gone, within=self.patience, every=self.every)

    async def until_held(self, pods: set[str]) -> None:
        """Wait until these pods, and no others, have devices by pod-resources."""

        async def held() -> bool:
            return {name for name, entries in (await self.holders()).items() if entries} == pods

        await eventually.eventually(held, within=self.patience, every=self.every)

    async def holders(self) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
        """Ask pod-resources: each pod's device entries in the order in which they came."""
        async with sockets.channel(self.kubelet.pod_resources_socket) as channel:
            stub = api_grpc.PodResourcesListerStub(channel)
            answer = await stub.List(api_pb2.ListPodResourcesRequest(), timeout=5)
        return {
            pod.name: [
                (entry.resource_name, tuple(entry.device_ids))
                for container in pod.containers
                for entry in container.devices
            ]
            for pod in answer.pod_resources
            if pod.namespace == NAMESPACE
        }

    async def until_offered(self, count: int) -> None:
        """Wait until so many devices are healthy; the node object tells it only at its tick."""

        async def are_offered() -> bool:
            return len(await self.offered()) == count

        await eventually.eventually(are_offered, within=self.patience, every=self.every)

    async def offered(self) -> set[str]:
        """Ask pod-resources for the ids of all healthy devices."""
        async with sockets.channel(self.kubelet.pod_resources_socket) as channel:
            stub = api_grpc.PodResourcesListerStub(channel)
            request = api_pb2.AllocatableResourcesRequest()
            answer = await stub.GetAllocatableResources(request, timeout=5)
        return {name for entry in answer.devices for name in entry.device_ids}
