"""The end of a release: an upgrade without a gap, a neighbour, an uninstall that leaves nothing."""

from __future__ import annotations

import asyncio

import pytest

from shared.contract import names
from shared.simulation.kube import paths
from tests.kube import ours
from tests.kube.chart import release as releases
from tests.kube.chart.release import ALLOCATOR, CHART, NAMESPACE, RELEASE, SLOTS, WAITS, Release
from tests.kube.gaps import Gaps
from tests.kube.real_kubelet import RealNode
from tests.support.running import running

NEIGHBOUR = "second"
NOWHERE = {"nodes": {"selector": {"slicewire.test/nowhere": "true"}}}


async def test_u111_an_upgrade_of_the_allocator_leaves_no_gap(
    release: Release, capsys: pytest.CaptureFixture[str]
) -> None:
    """U111: three pods run on, one that arrives meanwhile is admitted; the gap is measured."""
    first, _ = release.nodes
    await ours.run(first, "a", "b", "c")
    gaps = [Gaps(node, 8) for node in release.nodes]
    async with running(*(each.run() for each in gaps)), asyncio.TaskGroup() as tasks:
        values = {"resources": {"requests": {"cpu": "25m"}}}
        upgrade = tasks.create_task(release.upgrade(allocator=values))
        arrived = await _arriving(first, upgrade)
    with capsys.disabled():
        print(f"\nU111: {arrived} pods came; {'; '.join(each.words() for each in gaps)}")
    assert [each.longest_ms for each in gaps] == [0, 0]
    assert await ours.restarts(first, "a", "b", "c") == [0] * 3
    await release.until_counts(SLOTS, SLOTS)
    await release.share(ours.text(5))  # the new allocators follow
    await release.until_counts((10, 10), (10, 10))


async def _arriving(node: RealNode, upgrade: asyncio.Task[None]) -> int:
    """Have pods come one after the other until all parts are the new ones; count them."""
    count = 0
    while not upgrade.done():
        name = f"arriving-{count}"
        await ours.run(node, name)  # a pod that is refused ends the test
        await node.delete(name, grace=0)
        count += 1
    return count


async def test_u109_a_second_release_in_the_namespace_leaves_the_first_alone(
    release: Release,
) -> None:
    """U109: each selects its own pods; none is restarted, none is counted twice."""
    before = await _restarts_by_pod(release)
    given = releases.values(**NOWHERE)
    given["sharing"] = {
        "configMap": {"name": "others", "create": True, "data": {"default": releases.TEXT}}
    }
    await release.helm("install", NEIGHBOUR, str(CHART), *WAITS, given=given)
    try:
        assert await _restarts_by_pod(release) == before
        said = await release.kubectl(
            "get", "daemonset", ALLOCATOR, "--output", "jsonpath={.status.numberReady}"
        )
        assert said == str(len(release.nodes))
        await release.share(ours.text(6))
        await release.until_counts((12, 12), (12, 12))
    finally:
        await release.helm("uninstall", NEIGHBOUR, *WAITS)


async def test_an_uninstall_leaves_nodes_as_they_were(release: Release) -> None:
    """No annotation, no label, no condition, no object of ours; pods run on."""
    node, _ = release.nodes
    await ours.run(node, "a")
    await release.helm("uninstall", RELEASE, *WAITS)
    for each in release.nodes:
        found = await release.api.get(paths.node(each.name))
        metadata, status = found["metadata"], found["status"]
        assert not [name for name in metadata["annotations"] if name.startswith(names.ANNOTATIONS)]
        assert not [name for name in metadata["labels"] if name.startswith("nvidia.com/")]
        assert not [item for item in status["conditions"] if "licewire" in item["type"]]
        assert not found["spec"].get("unschedulable")
    left = await release.kubectl("get", "all,configmap,role,lease", "--output", "name")
    ours_left = [name for name in left.split() if RELEASE in name or "sharing" in name]
    assert ours_left == []
    assert await ours.restarts(node, "a") == [0]


async def _restarts_by_pod(release: Release) -> dict[str, int]:
    """How often each pod of the first release has started again."""
    listed = await release.api.get(paths.pods_in(NAMESPACE))
    return {
        item["metadata"]["uid"]: item["status"]["containerStatuses"][0]["restartCount"]
        for item in listed["items"]
        if item["metadata"]["labels"].get(releases.INSTANCE) == RELEASE
    }
