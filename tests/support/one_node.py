"""A cluster of one node for tests: embedded API server, fake kubelet, pods bound by hand."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from shared.kubelet import sockets
from shared.kubelet.podresources.v1 import api_grpc, api_pb2
from shared.simulation.kube import api_client, paths
from shared.simulation.kube.apiserver.server import ApiServer
from shared.simulation.kube.kubelet import kubelet as kubelets
from shared.simulation.kube.kubelet.switches import Switches
from tests.support import eventually

NAME = "gpu-a"
GPU = "nvidia.com/gpu"
QUICK = Switches(status_period=0.05)


def pod_object(
    name: str,
    *limits: Mapping[str, int],
    init: tuple[Mapping[str, int], ...] = (),
    node: str | None = NAME,
    grace: int = 0,
    env: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Make a pod: a container (c0, c1 ...) for each map of limits, init containers (i0 ...) too."""
    spec: dict[str, Any] = {
        "containers": [_container(f"c{nth}", one, env) for nth, one in enumerate(limits)],
        "initContainers": [_container(f"i{nth}", one, env) for nth, one in enumerate(init)],
        "terminationGracePeriodSeconds": grace,
    }
    if node is not None:
        spec["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def _container(
    name: str, limits: Mapping[str, int], env: Mapping[str, str] | None
) -> dict[str, Any]:
    amounts = {resource: str(amount) for resource, amount in limits.items()}
    return {
        "name": name,
        "image": "pause",
        "resources": {"limits": amounts, "requests": amounts},
        "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
    }


@dataclass(frozen=True)
class OneNode:
    """What a test holds: the API as a client sees it, and the kubelet to look into."""

    server: ApiServer
    api: api_client.ApiClient
    kubelet: kubelets.FakeKubelet

    @property
    def plugins(self) -> pathlib.Path:
        """The folder where plugins put their sockets."""
        return self.kubelet.plugins_folder

    async def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Create a pod."""
        return await self.api.create(paths.pods_in("default"), manifest)

    async def read(self, name: str) -> dict[str, Any]:
        """Read a pod."""
        return await self.api.get(f"{paths.pods_in('default')}/{name}")

    async def phase(self, name: str) -> str:
        """Return a pod's phase, "" while it has none."""
        pod = await self.read(name)
        return str(pod["status"].get("phase", ""))

    async def delete(self, name: str) -> None:
        """Delete a pod with its own grace."""
        await self.api.delete(f"{paths.pods_in('default')}/{name}", {})

    async def names(self) -> set[str]:
        """Name the pods that exist."""
        listed = await self.api.get(paths.PODS)
        return {item["metadata"]["name"] for item in listed["items"]}

    async def counts(self, resource: str = GPU) -> tuple[int, int] | None:
        """Return the node object's capacity and allocatable, None where it has no such resource."""
        node = await self.api.get(paths.node(NAME))
        status = node.get("status", {})
        if resource not in status.get("capacity", {}):
            return None
        return int(status["capacity"][resource]), int(status["allocatable"][resource])

    async def until_counts(self, expected: tuple[int, int] | None, resource: str = GPU) -> None:
        """Wait for the node object to say this capacity and allocatable."""

        async def said() -> bool:
            return await self.counts(resource) == expected

        await eventually.eventually(said)

    async def until_phase(self, name: str, phase: str) -> dict[str, Any]:
        """Wait for a pod to be in a phase; return it."""

        async def reached() -> bool:
            return await self.phase(name) == phase

        await eventually.eventually(reached)
        return await self.read(name)

    async def until_gone(self, name: str) -> None:
        """Wait for a pod object to be gone."""

        async def gone() -> bool:
            return name not in await self.names()

        await eventually.eventually(gone)

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
        }


@contextlib.asynccontextmanager
async def one_node(root: pathlib.Path, switches: Switches = QUICK) -> AsyncIterator[OneNode]:
    """Start a cluster of one node; everything ends with the block."""
    server = ApiServer()
    url = await server.start()
    kubelet = kubelets.FakeKubelet(url, NAME, root, switches=switches)
    try:
        async with api_client.ApiClient(url) as api, asyncio.TaskGroup() as group:
            life = group.create_task(kubelet.run(), name="kubelet")
            await kubelet.start()
            yield OneNode(server, api, kubelet)
            life.cancel()
    finally:
        await server.stop()
