"""Pods of a story as the API server gets them."""

from __future__ import annotations

import pytest

from services.rehearsal import bodies
from services.rehearsal.story import Container, Pod


@pytest.mark.parametrize(
    ("grace", "written"),
    [
        pytest.param(None, 1, id="nothing said: it ends on SIGTERM"),
        pytest.param(0, 0, id="at once"),
        pytest.param(600, 600, id="a slow one"),
    ],
)
def test_a_deleted_pod_takes_as_long_as_the_story_says(grace: int | None, written: int) -> None:
    """Kubernetes' 30 seconds would outlast every `expect` that says nothing of `within`."""
    pod = Pod(
        name="p",
        containers=(Container(name="main", requests={"nvidia.com/gpu": 1}),),
        grace_seconds=grace,
    )
    assert bodies.pod(pod, "image")["spec"]["terminationGracePeriodSeconds"] == written
