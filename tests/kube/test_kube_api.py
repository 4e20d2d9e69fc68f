"""The real API server behaves as the suite says, which the embedded one is held to."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator

import pytest

from tests.kube import cluster as clusters
from tests.suites import kube_api, kube_cluster
from tests.support.eventually import eventually


@pytest.fixture
async def server(cluster: clusters.Cluster) -> AsyncIterator[kube_cluster.Cluster]:
    """The real server as a cluster of the suite, with names that no other test has."""

    def restart() -> None:
        cluster.control.stop_apiserver()
        cluster.control.start_apiserver()

    def compact() -> None:
        cluster.control.compact()
        restart()  # what etcd forgot, the server itself still has in its cache

    async with kube_cluster.Cluster(
        clusters.API,
        restart=lambda: asyncio.to_thread(restart),
        compact=lambda: asyncio.to_thread(compact),
        run=f"suite-{secrets.token_hex(3)}",
        credentials=cluster.pki.credentials("admin"),
    ) as connected:

        async def has_account() -> bool:
            path = f"/api/v1/namespaces/{connected.run}/serviceaccounts/default"
            return (await connected.request("GET", path)).status == 200

        await eventually(has_account, within=60)  # before that, no pod is admitted
        yield connected
    await asyncio.to_thread(_remove, cluster, connected.run)


def _remove(cluster: clusters.Cluster, run: str) -> None:
    """Remove what lies outside the run's namespace, too: its nodes would be taken for broken."""
    cluster.kubectl("delete", "namespace", run, "--wait=false")
    listed = json.loads(cluster.kubectl("get", "nodes", "--output", "json"))["items"]
    names = [item["metadata"]["name"] for item in listed]
    if mine := [name for name in names if name.startswith(run)]:
        cluster.kubectl("delete", "nodes", *mine)


@pytest.mark.parametrize("check", kube_api.CHECKS, ids=lambda check: check.__name__)
async def test_real_server_passes(check: kube_api.Check, server: kube_cluster.Cluster) -> None:
    """Each behaviour of the suite holds on the real server."""
    await check(server)
