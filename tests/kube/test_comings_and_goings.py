"""An allocator among others that come and go: its kubelet, its successor, a foreign plugin."""

from __future__ import annotations

import asyncio

from shared.contract.facts import FactKind
from tests.kube import ours
from tests.kube.gaps import Gaps
from tests.kube.ours import Ours
from tests.suites.device_manager import devices
from tests.support.eventually import eventually
from tests.support.node_view import GPU
from tests.support.one_node import pod_object
from tests.support.plugin import Plugin
from tests.support.running import running


async def test_u033_an_allocator_is_replaced_under_running_pods(slicewire: Ours) -> None:
    """U033: the next one waits for the lock; there is always one that answers the kubelet."""
    node, services = slicewire.node, slicewire.services
    await ours.run(node, "a", "b", "c")
    await services["allocator-next"].start()
    await slicewire.until_awaited()
    gaps = Gaps(node, 8)
    async with running(gaps.run()):
        await asyncio.gather(services["allocator"].stop(), ours.run(node, "arriving"))
        await ours.run(node, "after")
    assert gaps.longest_ms == 0, gaps.words()
    held = [ids for entries in (await node.holders()).values() for _, ids in entries]
    assert len(set(held)) == 5
    assert await ours.restarts(node, "a", "b", "c") == [0, 0, 0]
    await slicewire.agrees()


async def test_u027_pods_that_come_before_the_allocator_are_refused_and_no_others(
    slicewire: Ours,
) -> None:
    """U027: a pod bound while nobody serves fails for good; the next one, seconds later, runs."""
    node, services = slicewire.node, slicewire.services
    await services["allocator"].kill()
    await node.kubelet.restart()
    await node.create(pod_object("early", {GPU: 1}))
    status = (await node.until_phase("early", "Failed"))["status"]
    assert status["reason"] == "UnexpectedAdmissionError"
    await services["allocator"].start()
    await node.until_offered(8)
    await ours.run(node, "late")
    await slicewire.agrees()


async def test_u029_an_allocator_waits_for_a_kubelet_and_follows_each_new_one(
    slicewire: Ours,
) -> None:
    """U029: however often it comes and goes, one registration counts in the end."""
    node, services = slicewire.node, slicewire.services
    await services["allocator"].stop()
    await node.kubelet.stop()
    await services["allocator"].start()
    await node.kubelet.start()
    await node.until_counts((8, 8))
    await node.kubelet.kill()
    await node.kubelet.start()
    await node.kubelet.restart()

    await node.until_offered(8)
    assert services["allocator"].ended_badly == ""
    await ours.run(node, "a")


async def test_u031_a_foreign_plugin_is_told_of_and_outlived(slicewire: Ours) -> None:
    """U031: it takes the resource over, as the last one does; when it ends, ours serves again."""
    node = slicewire.node
    async with Plugin(node.plugins, devices(5), endpoint="foreign.sock"):
        await node.until_counts((5, 5))
        (sentence,) = await eventually(
            lambda: slicewire.facts(FactKind.TAKEN_OVER), within=node.patience
        )
        assert "foreign.sock" in sentence
    await node.until_counts((8, 8))
    await ours.run(node, "a")
