"""slicewire on a real API server, scheduler, kubelet and containerd; only GPUs are simulated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from shared.simulation.kube import paths
from tests.kube import ours
from tests.kube.ours import Ours
from tests.kube.real_kubelet import RealNode
from tests.support.eventually import eventually
from tests.support.node_view import GPU
from tests.support.one_node import pod_object

ANY = None  # where a pod goes is the scheduler's choice


@pytest.fixture
async def slicewire(node: RealNode) -> AsyncIterator[Ours]:
    """Our services on a node with two GPUs of four slots each."""
    async with ours.started(node) as started:
        await started.share(text(4))
        await node.until_counts((8, 8))
        yield started


def text(replicas: int, flag: str = "") -> str:
    """A sharing text for `nvidia.com/gpu`."""
    return f"""\
version: v1
sharing:
  timeSlicing:
    {flag}
    resources:
      - name: nvidia.com/gpu
        replicas: {replicas}
"""


async def run(node: RealNode, *names: str) -> None:
    """Create pods of one slot each, which the scheduler places, and wait until they run."""
    for name in names:
        await node.create(pod_object(name, {GPU: 1}, node=ANY))
    for name in names:
        await node.until_phase(name, "Running")


async def restarts(node: RealNode, *names: str) -> list[int]:
    """How often the containers of pods were started again."""
    pods = [await node.read(name) for name in names]
    return [pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods]


async def slots(slicewire: Ours, state: str) -> int:
    """How many slots are in a state, by `slicewire status`."""
    (said,) = (await slicewire.status())["nodes"]
    return sum(int(gpu["slots"][state]) for gpu in said["gpus"])


async def test_pods_find_their_gpu_in_themselves(slicewire: Ours) -> None:
    """Environment and device nodes are those of one of the node's GPUs."""
    node = slicewire.node
    await run(node, "a")
    inside = await node.inside("a")
    uuids = await slicewire.uuids()
    number = uuids.index(inside.environment["NVIDIA_VISIBLE_DEVICES"])
    assert {f"/dev/nvidia{number}", "/dev/nvidiactl", "/dev/nvidia-uvm"} <= inside.devices
    assert f"/dev/nvidia{1 - number}" not in inside.devices


async def test_status_says_what_the_node_object_and_the_kubelet_say(slicewire: Ours) -> None:
    """Slots in all, and those that are held."""
    node = slicewire.node
    await run(node, "a", "b", "c")

    async def is_known() -> bool:
        return await slots(slicewire, "held") == 3

    await eventually(is_known, within=node.patience)
    assert await slots(slicewire, "total") == 8
    assert {name: len(held) for name, held in (await node.holders()).items()} == {
        "a": 1,
        "b": 1,
        "c": 1,
    }


async def test_a_ninth_pod_waits_until_the_text_gives_it_a_slot(slicewire: Ours) -> None:
    """The edit reaches the scheduler without a restart of anything."""
    node = slicewire.node
    names = [f"p{nth}" for nth in range(8)]
    await run(node, *names)
    await node.create(pod_object("ninth", {GPU: 1}, node=ANY))

    async def is_told() -> bool:
        conditions = (await node.read("ninth"))["status"].get("conditions", [])
        return any("Insufficient nvidia.com/gpu" in each.get("message", "") for each in conditions)

    await eventually(is_told, within=node.patience)
    await slicewire.share(text(8))
    await node.until_counts((16, 16))
    await node.until_phase("ninth", "Running")
    assert await restarts(node, *names) == [0] * 8


async def test_a_bad_text_changes_nothing_and_is_told(slicewire: Ours) -> None:
    """The last good one serves; the Event about the node has the suggestion."""
    node = slicewire.node
    await slicewire.share(text(6).replace("replicas", "replica"))

    async def events() -> list[dict[str, Any]]:
        listed = await node.api.get(paths.events("default"))
        return [item for item in listed["items"] if "replicas" in item.get("message", "")]

    (event,) = await eventually(events, within=node.patience)
    assert event["involvedObject"]["kind"] == "Node"
    assert await node.counts() == (8, 8)
    await run(node, "a")


async def test_more_than_one_slot_is_refused_in_our_words(slicewire: Ours) -> None:
    """The pod's status has the whole sentence."""
    node = slicewire.node
    await slicewire.share(text(4, "failRequestsGreaterThanOne: true"))

    async def is_refused() -> bool:
        pod = pod_object("greedy", {GPU: 2}, node=ANY)
        await node.create(pod)
        await eventually(lambda: _has_ended(node, "greedy"), within=node.patience)
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
    assert await slots(slicewire, "free") == 8


async def _has_ended(node: RealNode, name: str) -> bool:
    return await node.phase(name) in ("Running", "Failed")


async def test_a_restarted_kubelet_gets_everything_back(slicewire: Ours) -> None:
    """Pods keep their slots, the rest is there for others, and no slot goes to two."""
    node = slicewire.node
    await run(node, "a", "b")
    before = {name: set(held) for name, held in (await node.holders()).items()}
    await node.kubelet.restart()
    await node.until_counts((8, 8))
    await run(node, "c", "d")
    held = {name: set(ids) for name, ids in (await node.holders()).items()}
    assert {name: held[name] for name in before} == before
    assert len(set.union(*held.values())) == 4
    assert await restarts(node, "a", "b") == [0, 0]


async def test_an_allocator_is_replaced_under_running_pods(slicewire: Ours) -> None:
    """The next one waits for the lock; a pod that comes meanwhile runs as well."""
    node, services = slicewire.node, slicewire.services
    await run(node, "a", "b", "c")
    await services["allocator-next"].start()
    await asyncio.gather(services["allocator"].stop(), run(node, "arriving"))
    await node.until_counts((8, 8))
    await run(node, "after")
    held = [ids for entries in (await node.holders()).values() for _, ids in entries]
    assert len(set(held)) == 5
    assert await restarts(node, "a", "b", "c") == [0, 0, 0]


async def test_an_api_server_that_was_away_is_followed_again(slicewire: Ours) -> None:
    """A text that is written after its return arrives, though all it remembered is gone."""
    control = slicewire.node.cluster.control
    await asyncio.to_thread(control.stop_apiserver)
    await asyncio.to_thread(control.compact)
    await asyncio.to_thread(control.start_apiserver)
    await slicewire.share(text(6))
    await slicewire.node.until_counts((12, 12))


async def test_a_bus_that_lost_everything_is_filled_again(slicewire: Ours) -> None:
    """Slots stay meanwhile, and the next text arrives."""
    await slicewire.broker.restart(lose_store=True)
    assert await slicewire.node.counts() == (8, 8)
    await slicewire.share(text(2))
    await slicewire.node.until_counts((4, 4))
