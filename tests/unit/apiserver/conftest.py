"""One embedded API server a test, and the suite's view of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shared.simulation.kube.apiserver import ApiServer
from tests.suites.kube_cluster import Cluster


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """A server that listens, with bookmarks quick enough for tests."""
    embedded = ApiServer(bookmark=0.05)
    await embedded.start()
    try:
        yield embedded
    finally:
        await embedded.stop()


@pytest.fixture
async def cluster(server: ApiServer) -> AsyncIterator[Cluster]:
    """The same server as a cluster of the suite."""

    async def restart() -> None:
        await server.stop()
        await server.start()

    async def compact() -> None:
        server.compact()

    async with Cluster(server.address, restart, compact) as connected:
        yield connected
