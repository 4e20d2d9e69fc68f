"""One release on two nodes for all tests here; the last of them uninstalls it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared.simulation.kube.api_client import ApiClient
from tests.kube.chart import release as releases
from tests.kube.chart.release import Release
from tests.kube.cluster import Cluster


@pytest.fixture(scope="package")
def installed(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, with a second node and the release."""
    with cluster.another_node(), releases.installed(cluster):
        yield cluster


@pytest.fixture
async def release(installed: Cluster, api: ApiClient) -> Release:
    """The release as it was after its installation."""
    release = Release.on(installed, api)
    await release.begin()
    return release
