"""One release of the chart: its images on the node, its values, and what its pods say."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from shared.simulation.kube import paths
from tests.kube import images, ours
from tests.kube.cluster import Cluster
from tests.kube.image import build
from tests.kube.processes import ClusterError
from tests.kube.real_kubelet import RealNode
from tests.support.node_view import NAME

CHART = build.ROOT / "deploy" / "chart"
RELEASE = NAMESPACE = "slicewire"
NATS = "slicewire.test/nats:test"
SERVER = pathlib.Path(sys.executable).with_name("nats-server")
PATIENCE = "180s"


def load(cluster: Cluster) -> None:
    """Bring the product's images and a NATS onto the nodes."""
    nats = images.archive(cluster.folder, NATS, {"bin/nats-server": SERVER}, ("nats-server",))
    for archive in (*build.archives().values(), nats):
        cluster.load(archive)


def values(**more: Any) -> dict[str, Any]:
    """Values of a release on simulated GPUs, two on the node, four slots each."""
    repository, _, tag = NATS.partition(":")
    return {
        "image": {"repository": build.REPOSITORY, "tag": build.TAG, "pullPolicy": "Never"},
        "bus": {"image": {"repository": repository, "tag": tag}},
        "simulation": {"enabled": True, "gpus": ",".join(ours.GPUS)},
        "sharing": {"configMap": {"create": True, "data": {"default": ours.text(4)}}},
    } | more


@dataclass(frozen=True)
class Release:
    """A release that is installed on the cluster of a node."""

    node: RealNode

    async def helm(self, *words: str, given: dict[str, Any] | None = None) -> str:
        """Ask helm; `given` are values."""
        asked = [*words, "--namespace", NAMESPACE]
        if given is not None:
            file = self.node.cluster.folder / "values.json"
            file.write_text(json.dumps(given), encoding="utf-8")
            asked += ["--values", str(file)]
        return await asyncio.to_thread(self.node.cluster.helm, *asked)

    async def upgrade(self, **more: Any) -> None:
        """Change values, and wait until every pod is the new one."""
        waits = ("--wait", "--timeout", PATIENCE)
        await self.helm("upgrade", RELEASE, str(CHART), *waits, given=values(**more))

    async def command(self, *words: str) -> str:
        """Run our command in the controller's pod, as people do."""
        pod = ("exec", "deploy/slicewire-controller", "--namespace", NAMESPACE)
        return await asyncio.to_thread(self.node.cluster.kubectl, *pod, "--", "slicewire", *words)

    async def status(self) -> dict[str, Any]:
        """What `slicewire status` says of the node."""
        said: dict[str, Any] = json.loads(await self.command("status", "-o", "json"))
        (node,) = said["nodes"]
        return dict(node)

    async def share(self, text: str) -> None:
        """Edit the ConfigMap as with kubectl."""
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/sharing"
        await self.node.api.patch(path, {"data": {"default": text}})

    async def label(self, **labels: str | None) -> None:
        """Label the node; `_` in a name is written as it is given by `NAMES`."""
        named = {NAMES[name]: text for name, text in labels.items()}
        await self.node.api.patch(paths.node(NAME), {"metadata": {"labels": named}})

    async def metadata(self) -> dict[str, Any]:
        """The node's labels and annotations."""
        found = await self.node.api.get(paths.node(NAME))
        return dict(found["metadata"])


NAMES = {"mig_config": "nvidia.com/mig.config"}


@contextlib.asynccontextmanager
async def installed(node: RealNode) -> AsyncIterator[Release]:
    """Install, and uninstall at the end where the test has not."""
    await asyncio.to_thread(load, node.cluster)
    release = Release(node)
    words = ("install", RELEASE, str(CHART), "--create-namespace", "--wait", "--timeout", PATIENCE)
    await release.helm(*words, given=values())
    try:
        yield release
    finally:
        with contextlib.suppress(ClusterError):  # the test has uninstalled it
            await release.helm("uninstall", RELEASE, "--wait", "--timeout", PATIENCE)
