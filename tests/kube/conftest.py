"""A real cluster for the tests here; they are collected only by `-m real`, as in `make kube`.

Two workers have a cluster each. What may not be torn apart goes to one of them: the tests of a
file, and all that use the chart's release.
"""

from __future__ import annotations

import pathlib
from collections.abc import AsyncIterator, Iterator

import pytest

from shared.simulation.kube.api_client import ApiClient
from tests.kube import cluster as clusters
from tests.kube import network, ours
from tests.kube.cluster import Cluster
from tests.kube.ours import Ours
from tests.kube.real_kubelet import RealKubelet, RealNode

TIMEOUT_S = 300  # the first test also waits for the cluster


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Leave these tests out where nobody asked for a real cluster."""
    return None if "real" in str(config.getoption("markexpr")) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder."""
    here = pathlib.Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            group = item.path.relative_to(here).parts[0]  # a file, or the folder of the release
            marks = pytest.mark.real, pytest.mark.timeout(TIMEOUT_S), pytest.mark.xdist_group(group)
            for mark in marks:
                item.add_marker(mark)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The worker's cluster, of one node; the tests' own thread stands in its network."""
    with clusters.running() as started, network.entered():
        yield started


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[ApiClient]:
    """Its API server, as its administrator."""
    tls = cluster.pki.credentials("admin").context()
    async with ApiClient(clusters.API, tls) as client:
        yield client


@pytest.fixture
async def node(cluster: Cluster, api: ApiClient) -> RealNode:
    """Its first node, as if nothing had ever run there."""
    kubelet = RealKubelet(cluster, cluster.nodes[0])
    await kubelet.forget()
    return RealNode(api=api, kubelet=kubelet, cluster=cluster)


@pytest.fixture
async def slicewire(node: RealNode) -> AsyncIterator[Ours]:
    """Our services on a node with two GPUs of four slots each."""
    async with ours.started(node) as started:
        await started.share(ours.text(4))
        await node.until_counts((8, 8))
        yield started
