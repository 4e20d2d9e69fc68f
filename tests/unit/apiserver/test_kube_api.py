"""The embedded API server behaves as the suite says."""

from __future__ import annotations

import pytest

from tests.suites import kube_api
from tests.suites.kube_cluster import Cluster


@pytest.mark.parametrize("check", kube_api.CHECKS, ids=lambda check: check.__name__)
async def test_embedded_server_passes(check: kube_api.Check, cluster: Cluster) -> None:
    """Each behaviour of the suite holds on the embedded server."""
    await check(cluster)


def test_suite_is_whole() -> None:
    """The suite has the 53 behaviours that were seen on a real server, each with its sentence."""
    assert len(kube_api.CHECKS) == 53
    assert all(check.__doc__ for check in kube_api.CHECKS)
