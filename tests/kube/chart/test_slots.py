"""Slots of a release on two nodes: who gets them, what an edit does, what is refused."""

from __future__ import annotations

from typing import Any

from shared.simulation.kube import paths
from tests.kube import ours
from tests.kube.chart.release import PATIENCE_S, SLOTS, Release
from tests.support.eventually import eventually
from tests.support.node_view import GPU
from tests.support.one_node import pod_object

LIMITED = ours.text(4, "failRequestsGreaterThanOne: true")


async def test_pods_come_to_both_nodes_and_find_a_gpu_of_their_own(release: Release) -> None:
    """More than one node has slots for; the scheduler counts what each node's kubelet says."""
    first, second = release.nodes
    names = [f"p{nth}" for nth in range(10)]
    await ours.run(first, *names)
    placed = {name: (await first.read(name))["spec"]["nodeName"] for name in names}
    assert set(placed.values()) == {first.name, second.name}
    await release.agrees()
    for node in release.nodes:
        name = next(name for name in names if placed[name] == node.name)
        inside = await node.inside(name)
        uuid = inside.environment["NVIDIA_VISIBLE_DEVICES"]
        (said,) = [each for each in (await release.status())["nodes"] if each["name"] == node.name]
        number = [gpu["uuid"] for gpu in said["gpus"]].index(uuid)
        assert {f"/dev/nvidia{number}", "/dev/nvidiactl", "/dev/nvidia-uvm"} <= inside.devices


async def test_a_pod_that_is_one_too_many_waits_until_the_text_gives_it_a_slot(
    release: Release,
) -> None:
    """The edit reaches the scheduler without a restart of anything."""
    node, _ = release.nodes
    names = [f"p{nth}" for nth in range(sum(SLOTS))]
    await ours.run(node, *names)
    await node.create(pod_object("another", {GPU: 1}, node=ours.ANY))

    async def is_told() -> bool:
        conditions = (await node.read("another"))["status"].get("conditions", [])
        return any("Insufficient nvidia.com/gpu" in each.get("message", "") for each in conditions)

    await eventually(is_told, within=PATIENCE_S)
    await release.share(ours.text(5))
    await node.until_phase("another", "Running")
    assert await ours.restarts(node, *names) == [0] * len(names)
    await release.agrees()


async def test_an_edit_arrives_on_both_nodes_and_a_bad_one_on_none(release: Release) -> None:
    """The last good text goes on serving; an Event on each node says what to write."""
    first, _ = release.nodes
    await ours.run(first, "a")
    await release.share(ours.text(6))
    await release.until_counts((12, 12), (12, 12))
    await release.share(ours.text(3).replace("replicas", "replica"))

    async def told() -> set[str]:
        listed = await release.api.get(paths.events("default"))
        return {
            item["involvedObject"]["name"]
            for item in listed["items"]
            if item["reason"] == "ConfigRefused" and "replicas" in item["message"]
        }

    async def both_are_told() -> bool:
        return await told() == {node.name for node in release.nodes}

    await eventually(both_are_told, within=PATIENCE_S)
    await release.until_counts((12, 12), (12, 12))
    assert await ours.restarts(first, "a") == [0]


async def test_more_than_one_slot_is_refused_in_the_pods_status(release: Release) -> None:
    """UnexpectedAdmissionError with our sentence; the slots are free again."""
    node, _ = release.nodes
    await release.share(LIMITED)

    async def is_refused() -> bool:
        await node.create(pod_object("greedy", {GPU: 2}, node=ours.ANY))
        await eventually(lambda: ours.has_ended(node, "greedy"), within=PATIENCE_S)
        refused = await node.phase("greedy") == "Failed"
        if not refused:  # the new text was not there yet
            await node.delete("greedy", grace=0)
            await node.until_gone("greedy")
        return refused

    await eventually(is_refused, within=PATIENCE_S)
    status: dict[str, Any] = (await node.read("greedy"))["status"]
    assert status["reason"] == "UnexpectedAdmissionError"
    assert "nvidia.com/gpu: 2 slots requested, the limit is 1" in status["message"]
    assert "sharing.timeSlicing.failRequestsGreaterThanOne is true" in status["message"]
    await eventually(lambda: _all_are_free(release), within=PATIENCE_S)
    await release.until_counts(SLOTS, SLOTS)


async def _all_are_free(release: Release) -> bool:
    nodes = (await release.status())["nodes"]
    return {node["resources"][GPU]["free"] for node in nodes} == {SLOTS[0]}
