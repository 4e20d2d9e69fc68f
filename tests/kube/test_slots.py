"""Slots on a real scheduler, kubelet and containerd: who gets them, and what they find."""

from __future__ import annotations

from typing import Any

from shared.simulation.kube import paths
from tests.kube import ours
from tests.kube.ours import Ours
from tests.support.eventually import eventually
from tests.support.node_view import GPU
from tests.support.one_node import pod_object


async def test_pods_find_their_gpu_in_themselves(slicewire: Ours) -> None:
    """Environment and device nodes are those of one of the node's GPUs."""
    node = slicewire.node
    await ours.run(node, "a")
    inside = await node.inside("a")
    uuids = await slicewire.uuids()
    number = uuids.index(inside.environment["NVIDIA_VISIBLE_DEVICES"])
    assert {f"/dev/nvidia{number}", "/dev/nvidiactl", "/dev/nvidia-uvm"} <= inside.devices
    assert f"/dev/nvidia{1 - number}" not in inside.devices


async def test_status_says_what_the_node_object_and_the_kubelet_say(slicewire: Ours) -> None:
    """Slots in all, and those that are held."""
    node = slicewire.node
    await ours.run(node, "a", "b", "c")

    async def is_known() -> bool:
        return await slicewire.slots("held") == 3

    await eventually(is_known, within=node.patience)
    await slicewire.agrees()
    assert await slicewire.slots("total") == 8
    assert {name: len(held) for name, held in (await node.holders()).items()} == {
        "a": 1,
        "b": 1,
        "c": 1,
    }


async def test_a_ninth_pod_waits_until_the_text_gives_it_a_slot(slicewire: Ours) -> None:
    """The edit reaches the scheduler without a restart of anything."""
    node = slicewire.node
    names = [f"p{nth}" for nth in range(8)]
    await ours.run(node, *names)
    await node.create(pod_object("ninth", {GPU: 1}, node=ours.ANY))

    async def is_told() -> bool:
        conditions = (await node.read("ninth"))["status"].get("conditions", [])
        return any("Insufficient nvidia.com/gpu" in each.get("message", "") for each in conditions)

    await eventually(is_told, within=node.patience)
    await slicewire.share(ours.text(8))
    await node.until_counts((16, 16))
    await node.until_phase("ninth", "Running")
    await slicewire.agrees()
    assert await ours.restarts(node, *names) == [0] * 8


async def test_a_bad_text_changes_nothing_and_is_told(slicewire: Ours) -> None:
    """The last good one serves; the Event about the node has the suggestion."""
    node = slicewire.node
    await slicewire.share(ours.text(6).replace("replicas", "replica"))

    async def events() -> list[dict[str, Any]]:
        listed = await node.api.get(paths.events("default"))
        return [item for item in listed["items"] if "replicas" in item.get("message", "")]

    (event,) = await eventually(events, within=node.patience)
    assert event["involvedObject"]["kind"] == "Node"
    assert await node.counts() == (8, 8)
    await ours.run(node, "a")
    await slicewire.agrees()


async def test_more_than_one_slot_is_refused_in_our_words(slicewire: Ours) -> None:
    """The pod's status has the whole sentence."""
    node = slicewire.node
    await slicewire.share(ours.text(4, "failRequestsGreaterThanOne: true"))

    async def is_refused() -> bool:
        pod = pod_object("greedy", {GPU: 2}, node=ours.ANY)
        await node.create(pod)
        await eventually(lambda: ours.has_ended(node, "greedy"), within=node.patience)
        refused = await node.phase("greedy") == "Failed"
        if not refused:  # the new text was not there yet
            await node.delete("greedy", grace=0)
            await node.until_gone("greedy")
        return refused

    await eventually(is_refused, within=node.patience)
    status = (await node.read("greedy"))["status"]
    assert status["reason"] == "UnexpectedAdmissionError"
    assert (
        "nvidia.com/gpu: 2 slots requested, the limit is 1, because "
        "sharing.timeSlicing.failRequestsGreaterThanOne is true; request 1"
    ) in status["message"]

    async def is_free() -> bool:
        return await slicewire.slots("free") == 8

    await eventually(is_free, within=node.patience)
    await slicewire.agrees()
