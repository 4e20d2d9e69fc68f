"""One release of the chart on two nodes: images, values, and what its parts say."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shared.contract import names
from shared.simulation.kube import paths
from shared.simulation.kube.api_client import ApiClient
from tests.kube import agreement, images, ours
from tests.kube.cluster import Cluster
from tests.kube.image import build
from tests.kube.processes import ClusterError
from tests.kube.real_kubelet import RealKubelet, RealNode
from tests.support.eventually import eventually
from tests.support.node_view import GPU

CHART = build.ROOT / "deploy" / "chart"
RELEASE = NAMESPACE = "slicewire"
ALLOCATOR, BUS = (f"{RELEASE}-{part}" for part in ("allocator", "nats"))
GPUS = ",".join(ours.GPUS)
COMPONENT, INSTANCE = "app.kubernetes.io/component", "app.kubernetes.io/instance"
NATS = "slicewire.test/nats:test"
SERVER = pathlib.Path(sys.executable).with_name("nats-server")
PATIENCE_S = 180
WAITS = ("--wait", "--timeout", f"{PATIENCE_S}s")
TEXT = ours.text(4)
WHOLE = "all-disabled"  # the layout
MIG = "nvidia.com/mig-"
SLOTS = (8, 8)  # of each node, by that text
LEASE_S = 5  # a leader that has crashed is waited for so long; the chart says 15


def load(cluster: Cluster) -> None:
    """Bring the product's images and a NATS onto the nodes."""
    nats = images.archive(cluster.folder, NATS, {"bin/nats-server": SERVER}, ("nats-server",))
    for archive in (*build.archives().values(), nats):
        cluster.load(archive)


def values(**more: Any) -> dict[str, Any]:
    """Values of a release on simulated GPUs, two on each node, four slots each."""
    repository, _, tag = NATS.partition(":")
    return {
        "image": {"repository": build.REPOSITORY, "tag": build.TAG, "pullPolicy": "Never"},
        "bus": {"image": {"repository": repository, "tag": tag}},
        "simulation": {"enabled": True, "gpus": GPUS},
        "controller": {"leaseSeconds": LEASE_S},
        "sharing": {"configMap": {"create": True, "data": {"default": TEXT}}},
    } | more


@contextlib.contextmanager
def installed(cluster: Cluster) -> Iterator[None]:
    """Install on all nodes; at the end uninstall where no test has."""
    load(cluster)
    helm(cluster, "install", RELEASE, str(CHART), "--create-namespace", *WAITS, given=values())
    try:
        yield
    finally:
        with contextlib.suppress(ClusterError):
            helm(cluster, "uninstall", RELEASE, *WAITS)


def helm(cluster: Cluster, *words: str, given: Mapping[str, Any] | None = None) -> str:
    """Ask helm about our namespace; `given` are values."""
    asked = [*words, "--namespace", NAMESPACE]
    if given is not None:
        file = cluster.folder / "values.json"
        file.write_text(json.dumps(given), encoding="utf-8")
        asked += ["--values", str(file)]
    return cluster.helm(*asked)


@dataclass(frozen=True)
class Release:
    """The release as a test uses it.

    Attributes:
        cluster: where it is installed.
        api: that cluster's API server, as its administrator.
        nodes: its nodes, on each of which the release serves.
    """

    cluster: Cluster
    api: ApiClient
    nodes: tuple[RealNode, ...]

    @classmethod
    def on(cls, cluster: Cluster, api: ApiClient) -> Release:
        """The release on all nodes of a cluster."""
        views = (
            RealNode(api=api, kubelet=RealKubelet(cluster, each), cluster=cluster, name=each.name)
            for each in cluster.nodes
        )
        return cls(cluster, api, tuple(views))

    async def helm(self, *words: str, given: Mapping[str, Any] | None = None) -> str:
        """Ask helm."""
        return await asyncio.to_thread(helm, self.cluster, *words, given=given)

    async def kubectl(self, *words: str, namespace: str = NAMESPACE) -> str:
        """Ask kubectl about our namespace, or another."""
        return await asyncio.to_thread(
            self.cluster.kubectl, *words[:1], "--namespace", namespace, *words[1:]
        )

    async def apply(self, manifests: str) -> None:
        """Create objects of the default namespace."""
        words = ("apply", "--namespace", "default", "--filename", "-")
        await asyncio.to_thread(self.cluster.kubectl, *words, given=manifests)

    async def upgrade(self, **more: Any) -> None:
        """Change values, and wait until every pod is the new one."""
        await self.helm("upgrade", RELEASE, str(CHART), *WAITS, given=values(**more))

    async def empty(self) -> None:
        """Have no pods but ours."""
        everything = ("pods", "--all", "--namespace", "default", "--force", "--grace-period", "0")
        await asyncio.to_thread(self.cluster.kubectl, "delete", *everything)

    async def command(self, *words: str) -> str:
        """Run our command as people do, in a controller's pod, whichever answers.

        Raises:
            ClusterError: none does.
        """
        refusal = ClusterError("there is no controller")
        for pod in await self.pods("controller"):
            try:
                return await self.kubectl("exec", pod, "--", "slicewire", *words)
            except ClusterError as error:
                refusal = error
        raise refusal

    async def status(self) -> Mapping[str, Any]:
        """What `slicewire status` says."""
        said: Mapping[str, Any] = json.loads(await self.command("status", "-o", "json"))
        return said

    async def agrees(self) -> None:
        """Wait until `kubectl get nodes` and `slicewire status` say the same."""
        await agreement.agreed(self.cluster, self.status, PATIENCE_S)

    async def until_counts(self, *expected: tuple[int, int] | None, agreed: bool = True) -> None:
        """Wait for capacity and allocatable of each node; then `slicewire status` agrees."""
        for node, counts in zip(self.nodes, expected, strict=True):
            await node.until_counts(counts)
        if agreed:
            await self.agrees()

    async def pods(self, part: str) -> dict[str, dict[str, Any]]:
        """The pods of a part, by name."""
        listed = await self.api.get(paths.pods_in(NAMESPACE))
        return {
            item["metadata"]["name"]: item
            for item in listed["items"]
            if {COMPONENT: part, INSTANCE: RELEASE}.items() <= item["metadata"]["labels"].items()
        }

    async def place_of(self, part: str) -> RealNode:
        """The node on which a part's only pod runs."""
        (pod,) = (await self.pods(part)).values()
        return next(node for node in self.nodes if node.name == pod["spec"]["nodeName"])

    async def leader(self) -> str:
        """The identity of the controller that leads; it begins with its pod's name."""
        lease = await self.api.get(
            f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{names.LEASE}"
        )
        return str(lease["spec"].get("holderIdentity") or "")

    async def share(self, text: str) -> None:
        """Edit the ConfigMap as with kubectl."""
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/sharing"
        await self.api.patch(path, {"data": {"default": text}})

    async def cut(self, node: RealNode, layout: str | None) -> None:
        """Choose a node's MIG layout, or none."""
        labels = {names.MIG_CONFIG_LABEL: layout}
        await self.api.patch(paths.node(node.name), {"metadata": {"labels": labels}})

    async def until_cut(self, node: RealNode, state: str = "success") -> None:
        """Wait for what became of it."""

        async def is_so() -> bool:
            labels = (await self.api.get(paths.node(node.name)))["metadata"]["labels"]
            return bool(labels.get(names.MIG_STATE_LABEL) == state)

        await eventually(is_so, within=PATIENCE_S, every=node.every)

    async def make_whole(self, node: RealNode) -> None:
        """Have a node's GPUs without MIG, and nobody who asks for a layout."""
        labels = (await self.api.get(paths.node(node.name)))["metadata"]["labels"]
        if names.MIG_CONFIG_LABEL in labels:
            await self.cut(node, WHOLE)
            await eventually(lambda: self._is_whole(node), within=PATIENCE_S, every=node.every)
            await self.until_cut(node)
            await self.cut(node, None)

    async def _is_whole(self, node: RealNode) -> bool:
        allocatable = (await self.api.get(paths.node(node.name)))["status"]["allocatable"]
        offers = {name for name, count in allocatable.items() if count != "0"}
        return GPU in offers and not any(name.startswith(MIG) for name in offers)

    async def begin(self) -> None:
        """Have no pods but ours, whole GPUs, and the first text on every node."""
        await self.empty()
        await self.kubectl("delete", "poddisruptionbudget", "--all", namespace="default")
        for node in self.nodes:
            await self.make_whole(node)
        await self.share(TEXT)
        await self.until_counts(*[SLOTS] * len(self.nodes))
