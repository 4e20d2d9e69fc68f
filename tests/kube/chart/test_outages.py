"""What a release serves while something under it is away, and when it is back."""

from __future__ import annotations

import asyncio

from tests.kube import ours
from tests.kube.chart.release import BUS, NAMESPACE, SLOTS, Release
from tests.support.node_view import GPU
from tests.support.one_node import pod_object


async def test_one_node_goes_down_and_the_other_is_served_on(release: Release) -> None:
    """An edit arrives on the one that is there, and on the other when it has booted."""
    up = await release.place_of("nats")
    (down,) = [node for node in release.nodes if node is not up]
    for node in release.nodes:
        await node.create(pod_object(f"on-{node.name}", {GPU: 1}, node=node.name))
        await node.until_phase(f"on-{node.name}", "Running")
    await down.kubelet.power_off()
    await release.share(ours.text(3))
    await up.until_counts((6, 6))
    assert await down.counts() == SLOTS
    await up.create(pod_object("later", {GPU: 1}, node=up.name))
    await up.until_phase("later", "Running")
    assert await ours.restarts(up, f"on-{up.name}") == [0]

    await down.kubelet.power_on()
    await release.until_counts((6, 6), (6, 6))
    await down.until_phase(f"on-{down.name}", "Failed")
    await down.create(pod_object("again", {GPU: 1}, node=down.name))
    await down.until_phase("again", "Running")
    await release.agrees()


async def test_a_kubelet_starts_again(release: Release) -> None:
    """The allocator's pod goes on, and registers with the new one."""
    node, _ = release.nodes
    await node.create(pod_object("a", {GPU: 1}, node=node.name))
    await node.until_phase("a", "Running")
    await node.kubelet.restart()
    await node.until_offered(8)
    await node.create(pod_object("b", {GPU: 1}, node=node.name))
    await node.until_phase("b", "Running")
    assert await ours.restarts(node, "a", "b") == [0, 0]
    await release.agrees()


async def test_an_api_server_forgets_its_history(release: Release) -> None:
    """Watches start anew (410), and an edit that is made after it arrives."""
    control = release.cluster.control
    await asyncio.to_thread(control.stop_apiserver)
    await asyncio.to_thread(control.compact)
    await asyncio.to_thread(control.start_apiserver)
    await release.share(ours.text(6))
    await release.until_counts((12, 12), (12, 12))


async def test_a_bus_starts_anew_with_nothing_in_it(release: Release) -> None:
    """Slots stay, every part says again what it knows, and the next edit arrives."""
    node, _ = release.nodes
    await node.create(pod_object("a", {GPU: 1}, node=node.name))
    await node.until_phase("a", "Running")
    place = await release.place_of("nats")
    await place.kubelet.crash(f"{NAMESPACE}/{BUS}-0")
    assert await node.counts() == SLOTS
    await release.share(ours.text(2))
    await release.until_counts((4, 4), (4, 4))
    assert await ours.restarts(node, "a") == [0]
