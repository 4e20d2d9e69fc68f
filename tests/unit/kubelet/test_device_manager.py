"""The fake kubelet behaves as the measured ones, and shows tests what a real one wouldn't."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator

import pytest

from shared.simulation.kube.kubelet import containers, pod_resources
from shared.simulation.kube.kubelet.switches import Switches
from tests.suites.device_manager import DeviceManagerSuite, devices
from tests.support.eventually import eventually
from tests.support.one_node import GPU, OneNode, one_node, pod_object
from tests.support.plugin import Plugin, by_cdi


@pytest.fixture
async def node(tmp_path: pathlib.Path) -> AsyncIterator[OneNode]:
    """A cluster of one node with the real kubelet's ways, but a quick status tick."""
    async with one_node(tmp_path) as started:
        yield started


class TestFakeKubelet(DeviceManagerSuite):
    """Every measured behaviour, on the fake kubelet."""


async def test_the_node_object_changes_at_the_tick_only(tmp_path: pathlib.Path) -> None:
    """With a long period, a registration shows nowhere but in the kubelet's own counts."""
    async with (
        one_node(tmp_path, Switches(status_period=60)) as node,
        Plugin(node.plugins, devices(8)),
    ):
        await eventually(lambda: node.kubelet.record.lists)
        await node.create(pod_object("a", {GPU: 1}))
        await node.until_phase("a", "Running")
        assert await node.counts() is None


async def test_ids_come_in_random_order_unless_switched_off(tmp_path: pathlib.Path) -> None:
    """Forty ids in a row would only be sorted by a one in 40! chance."""
    names = {f"g{nth:02}": True for nth in range(40)}
    ordered = {}
    for unordered in (True, False):
        switches = Switches(status_period=0.05, unordered_ids=unordered)
        async with (
            one_node(tmp_path / str(unordered), switches) as node,
            Plugin(node.plugins, names) as plugin,
        ):
            await node.until_counts((40, 40))
            await node.create(pod_object("a", {GPU: 40}))
            await node.until_phase("a", "Running")
            listed = [ids[0] for _, ids in (await node.holders())["a"]]
            ordered[unordered] = list(plugin.allocated[0]) == listed == sorted(names)
    assert ordered == {True: False, False: True}


async def test_without_reuse_an_init_container_keeps_its_device(tmp_path: pathlib.Path) -> None:
    """So that nothing is left for the app container."""
    async with (
        one_node(tmp_path, Switches(status_period=0.05, init_reuse=False)) as node,
        Plugin(node.plugins, devices(1), preferred=[]) as plugin,
    ):
        await node.until_counts((1, 1))
        await node.create(pod_object("a", {GPU: 1}, init=({GPU: 1},)))
        await node.until_phase("a", "Failed")
        assert plugin.allocated == [("g0",)]
        assert await node.holders() == {}


async def test_a_test_sees_what_a_container_is_made_of(node: OneNode) -> None:
    """Host paths, CDI names and slots, which a process inside wouldn't."""
    async with Plugin(node.plugins, devices(1)):
        await node.until_counts((1, 1))
        await node.create(pod_object("a", {GPU: 1}))
        await node.until_phase("a", "Running")
        container = _container(node, "a")
        assert container.devices == (containers.DeviceNode("/dev/nvidia0", "/dev/null", "rw"),)
        assert container.slots == {GPU: ("g0",)}
    async with Plugin(node.plugins, devices(2), answer=by_cdi):
        await node.until_counts((2, 2))
        await node.create(pod_object("b", {GPU: 1}))
        await node.until_phase("b", "Running")
        assert _container(node, "b").cdi == ("vendor.test/gpu=g1",)


def _container(node: OneNode, name: str) -> containers.Container:
    pod = node.kubelet.pod(f"default/{name}")
    assert pod is not None
    return pod.containers["c0"]


async def test_finished_pods_are_listed_by_older_kubelets(tmp_path: pathlib.Path) -> None:
    """Their devices are free all the same."""
    async with (
        one_node(tmp_path, Switches(status_period=0.05, finished_in_list=True)) as node,
        Plugin(node.plugins, devices(1)),
    ):
        await node.until_counts((1, 1))
        await node.create(pod_object("job", {GPU: 1}))
        await node.until_phase("job", "Running")
        await node.kubelet.finish("default/job")
        await node.until_phase("job", "Succeeded")
        assert "job" in await node.holders()
        await node.create(pod_object("next", {GPU: 1}))
        await node.until_phase("next", "Running")


async def test_an_older_kubelet_lets_the_end_of_one_endpoint_cut_off_the_next(
    tmp_path: pathlib.Path,
) -> None:
    """Although it still serves, and until it registers again."""
    switches = Switches(status_period=0.05, old_endpoint_drops_new=True)
    async with one_node(tmp_path, switches) as node, contextlib.AsyncExitStack() as older:
        first = Plugin(node.plugins, devices(8), endpoint="first.sock")
        await older.enter_async_context(first)
        await node.until_counts((8, 8))
        async with Plugin(node.plugins, devices(5), endpoint="second.sock") as second:
            await node.until_counts((5, 5))
            await older.aclose()
            await node.until_counts((5, 0))
            await eventually(lambda: second.streams == 0)
            await second.register()
            await node.until_counts((5, 5))


async def test_a_lost_grant_is_answered_but_never_listed(tmp_path: pathlib.Path) -> None:
    """The plugin said yes, the pod failed before it ran, the device is free."""
    async with (
        one_node(tmp_path, Switches(status_period=0.05, lost_grants=True)) as node,
        Plugin(node.plugins, devices(1)) as plugin,
    ):
        await node.until_counts((1, 1))
        for name in ("a", "b"):
            await node.create(pod_object(name, {GPU: 1}))
            await node.until_phase(name, "Failed")
        assert plugin.allocated == [("g0",)] * 2
        assert await node.holders() == {}


async def test_u035_a_stale_table_keeps_what_forced_pods_held(tmp_path: pathlib.Path) -> None:
    """No List shows the pod, and the next one is refused, until the kubelet starts anew."""
    async with one_node(tmp_path, Switches(status_period=0.05, keeps_forced=True)) as node:
        async with Plugin(node.plugins, devices(2)):
            await node.until_counts((2, 2))
            await node.create(pod_object("a", {GPU: 2}))
            await node.until_phase("a", "Running")
            await node.delete("a", grace=0)
            await node.until_held(set())
            await node.create(pod_object("b", {GPU: 1}))
            await node.until_phase("b", "Failed")
        message = (await node.read("b"))["status"]["message"]
        assert "Requested: 1, Available: 0" in message
        await node.kubelet.restart()
        async with Plugin(node.plugins, devices(2)):
            await node.until_counts((2, 2))
            await node.create(pod_object("c", {GPU: 1}))
            await node.until_phase("c", "Running")


async def test_capacity_is_removed_when_the_grace_of_a_gone_plugin_is_over(
    tmp_path: pathlib.Path,
) -> None:
    """It reads 0, so that everybody sees that the resource was a plugin's."""
    async with one_node(tmp_path, Switches(status_period=0.05, endpoint_grace=0.2)) as node:
        async with Plugin(node.plugins, devices(8)):
            await node.until_counts((8, 8))
        await node.until_counts((0, 0))


def test_ten_calls_at_once_then_a_hundred_a_second() -> None:
    """Fifty calls in a row of 5 ms each: the burst, and every other of the rest."""
    limit = pod_resources.RateLimit()
    taken = [limit.admits(7.0 + nth * 0.005) for nth in range(50)]
    assert all(taken[:10])
    assert sum(taken) == pytest.approx(10 + 50 / 2, abs=1)


async def test_it_goes_on_when_the_api_server_comes_back(node: OneNode) -> None:
    """Status ticks and pods wait for it, and nothing is lost."""
    async with Plugin(node.plugins, devices(1)) as plugin:
        await node.until_counts((1, 1))
        await node.server.stop()
        await plugin.send(devices(4))
        await eventually(lambda: len(node.kubelet.record.lists) == 2)
        await node.server.start()
        await node.until_counts((4, 4))
        await node.create(pod_object("a", {GPU: 4}))
        await node.until_phase("a", "Running")


async def test_pods_are_admitted_one_after_the_other(node: OneNode) -> None:
    """However many are bound at once, no id goes to two."""
    async with Plugin(node.plugins, devices(8)) as plugin:
        await node.until_counts((8, 8))
        async with asyncio.TaskGroup() as group:
            for nth in range(10):
                group.create_task(node.create(pod_object(f"p{nth}", {GPU: 1})), name=f"p{nth}")
        await eventually(lambda: len(node.kubelet.record.rejections) == 2)
        await eventually(lambda: len(node.kubelet.running()) == 8)
        assert len({ids for (ids,) in plugin.allocated}) == 8
