"""An embedded API server and a client of it, for tests of the controller."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from services.reconfigurer.controller import kube
from shared.simulation.kube import apiserver
from shared.simulation.kube.apiserver import kinds
from shared.simulation.kube.apiserver.faults import Hook

NAMESPACE = "slicewire"


@dataclass
class Cluster:
    """The server, its address, and a client of the controller's own kind."""

    server: apiserver.ApiServer
    url: str
    api: kube.Kube

    def add_node(self, name: str, labels: Mapping[str, str] | None = None) -> None:
        """Create a node."""
        metadata = {"name": name, "labels": dict(labels or {})}
        self.server.objects.create(kinds.NODE, "", {"metadata": metadata})

    def node(self, name: str) -> dict[str, Any]:
        """Its metadata now."""
        found: dict[str, Any] = self.server.objects.read(kinds.NODE, "", name).data()["metadata"]
        return found

    async def patch_node(self, name: str, **metadata: Mapping[str, str | None]) -> None:
        """Merge into a node's metadata."""
        await self.api.call(
            "PATCH", f"/api/v1/nodes/{name}", body={"metadata": metadata}, content=kube.MERGE_PATCH
        )

    async def config_map(self, name: str, data: Mapping[str, str] | None) -> None:
        """Make the ConfigMap hold exactly these keys; None deletes it."""
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
        with contextlib.suppress(kube.KubeError):
            if data is None:
                await self.api.call("DELETE", f"{path}/{name}")
                return
            body = {"metadata": {"name": name}, "data": dict(data)}
            await self.api.call("POST", path, body=body)
            return
        await self.api.call("PUT", f"{path}/{name}", body={**body, "kind": "ConfigMap"})

    def events(self, reason: str = "", *, about: str = "") -> list[dict[str, Any]]:
        """Events with this reason, about this object."""
        return [
            event
            for event in self.all(kinds.EVENT)
            if reason in {"", event["reason"]} and about in {"", event["involvedObject"]["name"]}
        ]

    def all(self, kind: kinds.Kind) -> list[dict[str, Any]]:
        """Every object of a kind."""
        return self.server.store.list(kind.plural)


@contextlib.asynccontextmanager
async def running(*, fault: Hook | None = None, bookmark: float = 60.0) -> AsyncIterator[Cluster]:
    """Start both; they end with the block."""
    server = apiserver.ApiServer(fault=fault, bookmark=bookmark)
    url = await server.start()
    server.objects.create(kinds.NAMESPACE, "", {"metadata": {"name": NAMESPACE}})
    try:
        async with kube.connect(url, "") as api:
            yield Cluster(server, url, api)
    finally:
        await server.stop()
