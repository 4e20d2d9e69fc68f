"""Stories that the embedded cluster plays as well, played on the real one by our own command."""

from __future__ import annotations

import asyncio
import json
import pathlib
import sys
from typing import Any

import pytest

from shared.contract import names
from tests.kube import images
from tests.kube.chart.release import NAMESPACE, TEXT, Release
from tests.kube.image import build

EXAMPLES = build.ROOT / "deploy" / "examples"
BOTH = build.ROOT / "tests" / "e2e" / "stories"
STORIES = (
    BOTH / "on-both-clusters.yaml",
    EXAMPLES / "refuse-and-recover.yaml",
)


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
async def test_a_story_goes_as_on_the_embedded_cluster(
    story: pathlib.Path, release: Release
) -> None:
    """And what it has changed is as it was before."""
    said = await _rehearse(release, story)
    assert said["ok"], said
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/sharing"
    assert (await release.api.get(path))["data"] == {"default": TEXT}
    listed = await release.api.get("/api/v1/namespaces/default/pods")
    left = [item for item in listed["items"] if "deletionTimestamp" not in item["metadata"]]
    assert left == []
    for node in release.nodes:
        metadata = (await release.api.get(f"/api/v1/nodes/{node.name}"))["metadata"]
        assert names.MIG_CONFIG_LABEL not in metadata["labels"]


async def test_what_only_the_embedded_cluster_plays_is_refused_before_anything_is_done(
    release: Release,
) -> None:
    """With the lines of all such steps."""
    said = await _rehearse(release, EXAMPLES / "demo.yaml")
    assert not said["ok"]
    assert said["steps"] == []
    assert any("only restart is played" in each["message"] for each in said["errors"])


async def _rehearse(release: Release, story: pathlib.Path) -> dict[str, Any]:
    words = ("rehearse", str(story), "--kubeconfig", str(release.cluster.kubeconfig))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.cli", *words, "--image", images.PAUSE, "-o", "json"),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    answer: dict[str, Any] = json.loads(said)
    return answer
