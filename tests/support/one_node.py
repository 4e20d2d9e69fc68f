"""A cluster of one node for tests: embedded API server, fake kubelet, pods bound by hand."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from shared.simulation.kube import api_client
from shared.simulation.kube.apiserver.server import ApiServer
from shared.simulation.kube.kubelet import kubelet as kubelets
from shared.simulation.kube.kubelet.runtime import Runtime
from shared.simulation.kube.kubelet.switches import Switches
from tests.support import node_view
from tests.support.node_view import NAMESPACE, Inside, NodeView

NAME = node_view.NAME
GPU = node_view.GPU
QUICK = Switches(status_period=0.05)


def pod_object(
    name: str,
    *limits: Mapping[str, int],
    init: tuple[Mapping[str, int], ...] = (),
    node: str | None = NAME,
    grace: int = 0,
    env: Mapping[str, str] | None = None,
    stubborn: bool = False,
) -> dict[str, Any]:
    """Make a pod: a container (c0, c1 ...) for each map of limits, init containers (i0 ...) too.

    A stubborn pod only ends when it is killed.
    """
    command = {"command": ["sleep", "86400"]} if stubborn else {}
    spec: dict[str, Any] = {
        "containers": [_container(f"c{nth}", one, env) | command for nth, one in enumerate(limits)],
        "initContainers": [
            _container(f"i{nth}", one, env) | {"command": ["true"]} for nth, one in enumerate(init)
        ],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": grace,
    }
    if node is not None:
        spec["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


def _container(
    name: str, limits: Mapping[str, int], env: Mapping[str, str] | None
) -> dict[str, Any]:
    amounts = {resource: str(amount) for resource, amount in limits.items()}
    return {
        "name": name,
        "image": node_view.IMAGE,
        "resources": {"limits": amounts, "requests": amounts},
        "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
    }


@dataclass(frozen=True, kw_only=True)
class OneNode(NodeView):
    """What a test holds: the API as a client sees it, and the kubelet to look into."""

    server: ApiServer
    kubelet: kubelets.FakeKubelet
    patience: float = 5.0

    async def inside(self, pod: str, container: str = "c0") -> Inside:
        """What the kubelet made of a container."""
        found = self.kubelet.pod(f"{NAMESPACE}/{pod}")
        assert found is not None, f"{pod} does not run"
        seen = found.containers[container]
        return Inside(seen.env, frozenset(device.container_path for device in seen.devices))


@contextlib.asynccontextmanager
async def one_node(
    root: pathlib.Path, switches: Switches = QUICK, runtime: Runtime | None = None
) -> AsyncIterator[OneNode]:
    """Start a cluster of one node; everything ends with the block."""
    server = ApiServer()
    url = await server.start()
    kubelet = kubelets.FakeKubelet(url, NAME, root, switches=switches, runtime=runtime)
    try:
        async with api_client.ApiClient(url) as api, asyncio.TaskGroup() as group:
            life = group.create_task(kubelet.run(), name="kubelet")
            await kubelet.start()
            yield OneNode(api=api, kubelet=kubelet, server=server)
            life.cancel()
    finally:
        await server.stop()
