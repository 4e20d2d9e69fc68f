"""The real kubelet of a node, as tests see one."""

from __future__ import annotations

import asyncio
import json
import pathlib
import signal
from dataclasses import dataclass

from shared.simulation.kube import paths
from tests.kube.cluster import Cluster
from tests.kube.node import Node
from tests.support.node_view import NAMESPACE, Inside, NodeView


class RealKubelet:
    """Stops, starts and looks into a node; what takes time runs in a thread."""

    def __init__(self, cluster: Cluster, node: Node) -> None:
        self._cluster = cluster
        self._node = node
        self.folder = node.folder
        self.plugins_folder: pathlib.Path = node.plugins
        self.pod_resources_socket: pathlib.Path = node.pod_resources_socket

    async def start(self) -> None:
        """Start, and wait until both sockets are served."""
        await asyncio.to_thread(self._node.start_kubelet)

    async def stop(self) -> None:
        """Stop as at a SIGTERM; containers go on."""
        await asyncio.to_thread(self._node.stop_kubelet)

    async def kill(self) -> None:
        """Stop as at a SIGKILL."""
        await asyncio.to_thread(self._node.stop_kubelet, signal.SIGKILL)

    async def restart(self) -> None:
        """Stop and start."""
        await self.stop()
        await self.start()

    async def finish(self, pod: str, exit_code: int = 0) -> None:
        """End the containers of `namespace/name` by themselves, as a job's do."""
        assert exit_code == 0, "what the image's first process answers to a signal"
        await asyncio.to_thread(self._signal, pod, signal.SIGTERM)

    async def crash(self, pod: str) -> None:
        """Kill the containers of `namespace/name`; the kubelet starts them again, if it may."""
        await asyncio.to_thread(self._signal, pod, signal.SIGKILL)

    async def power_off(self) -> None:
        """End everything on the node, pods as well."""
        await asyncio.to_thread(self._node.power_off)

    async def power_on(self) -> None:
        """Boot the node."""
        await asyncio.to_thread(self._node.power_on)

    async def forget(self) -> None:
        """Begin anew: no pods, no plugins, and a node object that never had any."""
        await asyncio.to_thread(self._forget)

    def _signal(self, pod: str, number: signal.Signals) -> None:
        namespace, name = pod.split("/")
        asked = ("get", "pod", name, "--namespace", namespace, "--output", "json")
        for status in json.loads(self._cluster.kubectl(*asked))["status"]["containerStatuses"]:
            container = status["containerID"].removeprefix("containerd://")
            self._node.ctr("tasks", "kill", "--signal", number.name, container)

    def _forget(self) -> None:
        pods = ("pods", "--all", "--namespace", NAMESPACE)
        self._cluster.kubectl("delete", *pods, "--force", "--grace-period", "0")
        # one request: hundreds of them one by one take kubectl most of a minute
        self._cluster.kubectl("delete", "--raw", paths.events(NAMESPACE))
        self._node.stop_kubelet()
        self._node.forget_plugins()
        self._cluster.kubectl("delete", "node", self._node.name)
        self._node.start_kubelet()
        self._cluster.start_proxy()
        self._cluster.until_ready()


@dataclass(frozen=True, kw_only=True)
class RealNode(NodeView):
    """A node of the real cluster."""

    cluster: Cluster
    kubelet: RealKubelet
    patience: float = 60.0
    every: float = 0.1  # a busy API server is what the others wait for

    @property
    def folder(self) -> pathlib.Path:
        """Everything that the node writes."""
        return self.kubelet.folder

    async def inside(self, pod: str, container: str = "c0") -> Inside:
        """Run commands in the container."""
        environment = await self._run(pod, container, "env")
        found = await self._run(pod, container, "ls", "/dev")
        variables = dict(line.split("=", 1) for line in environment.splitlines())
        return Inside(variables, frozenset(f"/dev/{name}" for name in found.split()))

    async def _run(self, pod: str, container: str, *command: str) -> str:
        where = ("exec", pod, "--namespace", NAMESPACE, "--container", container)
        return await asyncio.to_thread(self.cluster.kubectl, *where, "--", *command)
