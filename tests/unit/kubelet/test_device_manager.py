"""The fake kubelet behaves as the measured ones, and shows tests what a real one wouldn't."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator

import pytest
from grpclib import GRPCError, Status

from shared.kubelet import sockets
from shared.kubelet.podresources.v1 import api_grpc, api_pb2
from shared.simulation.kube.kubelet import containers, pod_resources
from shared.simulation.kube.kubelet.switches import Switches
from tests.suites.device_manager import DeviceManagerSuite, devices
from tests.support.eventually import eventually
from tests.support.one_node import GPU, OneNode, one_node, pod_object
from tests.support.plugin import Plugin


@pytest.fixture
async def node(tmp_path: pathlib.Path) -> AsyncIterator[OneNode]:
    """A cluster of one node with the real kubelet's ways, but a quick status tick."""
    async with one_node(tmp_path) as started:
        yield started


class TestFakeKubelet(DeviceManagerSuite):
    """Every measured behaviour, on the fake kubelet."""


async def test_what_the_plugin_answers_is_in_the_container(node: OneNode) -> None:
    """Environment (the pod's own variables win), device nodes, CDI names, slots."""
    async with Plugin(node.plugins, devices(1)):
        await node.until_counts((1, 1))
        await node.create(pod_object("a", {GPU: 1}, env={"OWN": "1"}))
        await node.create(pod_object("plain", {}, env={"DEVICES": "mine"}))
        await node.until_phase("a", "Running")
        pod = node.kubelet.pod("default/a")
        assert pod is not None
        container = pod.containers["c0"]
        assert container.env == {"DEVICES": "g0", "OWN": "1"}
        assert container.devices == (containers.DeviceNode("/dev/nvidia0", "/dev/nvidia0", "rw"),)
        assert container.cdi == ("vendor.test/gpu=g0",)
        assert container.slots == {GPU: ("g0",)}


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


@pytest.mark.parametrize("reuse", [True, False])
async def test_an_app_container_takes_over_its_init_containers_devices(
    tmp_path: pathlib.Path, reuse: bool
) -> None:
    """With reuse the one device is allocated twice; without, there is none left."""
    async with (
        one_node(tmp_path, Switches(status_period=0.05, init_reuse=reuse)) as node,
        Plugin(node.plugins, devices(1), preferred=[]) as plugin,
    ):
        await node.until_counts((1, 1))
        await node.create(pod_object("a", {GPU: 1}, init=({GPU: 1},)))
        await node.until_phase("a", "Running" if reuse else "Failed")
        assert plugin.allocated == ([("g0",)] * 2 if reuse else [("g0",)])
        assert await node.holders() == ({"a": [(GPU, ("g0",))]} if reuse else {})


async def test_what_is_taken_over_must_be_in_the_plugins_proposal(node: OneNode) -> None:
    """A larger app container asks for the rest, naming what it has already."""
    async with Plugin(node.plugins, devices(4), preferred=["g1", "g2"]) as plugin:
        await node.until_counts((4, 4))
        await node.create(pod_object("a", {GPU: 2}, init=({GPU: 1},)))
        await node.until_phase("a", "Running")
        first, second = plugin.preferred_requests
        assert list(first.must_include_deviceIDs) == []
        assert list(second.must_include_deviceIDs) == ["g1"]
        assert "g1" in second.available_deviceIDs
        assert set(plugin.allocated[1]) == {"g1", "g2"}


@pytest.mark.parametrize("shown", [True, False])
async def test_finished_pods_are_listed_only_by_older_kubelets(
    tmp_path: pathlib.Path, shown: bool
) -> None:
    """Their devices are free all the same."""
    async with (
        one_node(tmp_path, Switches(status_period=0.05, finished_in_list=shown)) as node,
        Plugin(node.plugins, devices(1)),
    ):
        await node.until_counts((1, 1))
        await node.create(pod_object("job", {GPU: 1}))
        await node.until_phase("job", "Running")
        await node.kubelet.finish("default/job")
        await node.until_phase("job", "Succeeded")
        assert ("job" in await node.holders()) is shown
        await node.create(pod_object("next", {GPU: 1}))
        await node.until_phase("next", "Running")


async def test_a_successor_stays_when_the_old_endpoints_fault_is_off(
    tmp_path: pathlib.Path,
) -> None:
    """A kubelet without the fault only minds the stream of the plugin that counts."""
    switches = Switches(status_period=0.05, old_endpoint_drops_new=False)
    async with one_node(tmp_path, switches) as node, contextlib.AsyncExitStack() as older:
        first = Plugin(node.plugins, devices(8), endpoint="first.sock")
        await older.enter_async_context(first)
        async with Plugin(node.plugins, devices(5), endpoint="second.sock") as second:
            await node.until_counts((5, 5))
            await older.aclose()
            assert first.streams == 0
            await second.send(devices(4))
            await node.until_counts((4, 4))
            assert second.streams == 1


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


async def test_capacity_is_removed_when_the_grace_of_a_gone_plugin_is_over(
    tmp_path: pathlib.Path,
) -> None:
    """It reads 0, so that everybody sees that the resource was a plugin's."""
    async with one_node(tmp_path, Switches(status_period=0.05, endpoint_grace=0.2)) as node:
        async with Plugin(node.plugins, devices(8)):
            await node.until_counts((8, 8))
        await node.until_counts((0, 0))


async def test_a_list_over_four_mebibytes_ends_the_stream(node: OneNode) -> None:
    """The kubelet's gRPC library takes no larger message."""
    names = {f"{nth:060}": True for nth in range(70_000)}
    async with Plugin(node.plugins, devices(2)) as plugin:
        await node.until_counts((2, 2))
        await plugin.send(names)
        await node.until_counts((2, 0))


def test_ten_calls_at_once_then_a_hundred_a_second() -> None:
    """Fifty calls in a row of 5 ms each: the burst, and every other of the rest."""
    limit = pod_resources.RateLimit()
    taken = [limit.admits(7.0 + nth * 0.005) for nth in range(50)]
    assert all(taken[:10])
    assert sum(taken) == pytest.approx(10 + 50 / 2, abs=1)


async def test_a_caller_that_asks_too_often_is_refused(node: OneNode) -> None:
    """With the status that tells it to come back later."""
    async with sockets.channel(node.kubelet.pod_resources_socket) as channel:
        stub = api_grpc.PodResourcesListerStub(channel)
        calls = [stub.List(api_pb2.ListPodResourcesRequest()) for _ in range(200)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
    refusals = [answer for answer in answers if isinstance(answer, GRPCError)]
    assert {refusal.status for refusal in refusals} == {Status.RESOURCE_EXHAUSTED}
    assert {refusal.message for refusal in refusals} == {"rejected by rate limit"}
    assert len(refusals) < 200


async def test_pod_resources_tells_of_one_pod_and_of_all_devices(node: OneNode) -> None:
    """Get answers for a pod, or that there is none; allocatable devices come one by one."""
    async with Plugin(node.plugins, devices(2, sick=1)):
        await node.until_counts((3, 2))
        await node.create(pod_object("a", {GPU: 1}))
        await node.until_phase("a", "Running")
        async with sockets.channel(node.kubelet.pod_resources_socket) as channel:
            stub = api_grpc.PodResourcesListerStub(channel)
            known = api_pb2.GetPodResourcesRequest(pod_name="a", pod_namespace="default")
            answer = await stub.Get(known)
            assert answer.pod_resources.containers[0].devices[0].resource_name == GPU
            unknown = api_pb2.GetPodResourcesRequest(pod_name="b", pod_namespace="default")
            with pytest.raises(GRPCError, match="pod b in namespace default not found"):
                await stub.Get(unknown)
            found = await stub.GetAllocatableResources(api_pb2.AllocatableResourcesRequest())
        assert sorted(entry.device_ids[0] for entry in found.devices) == ["g0", "g1"]


async def test_a_deleted_pod_gets_its_grace(node: OneNode) -> None:
    """It holds its device until then, and a second delete may make it shorter."""
    async with Plugin(node.plugins, devices(1)):
        await node.until_counts((1, 1))
        await node.create(pod_object("a", {GPU: 1}, grace=600))
        await node.until_phase("a", "Running")
        await node.delete("a")
        deleted = await node.read("a")
        assert "deletionTimestamp" in deleted["metadata"]
        assert "a" in await node.holders()
        path = "/api/v1/namespaces/default/pods/a"
        await node.api.delete(path, {"gracePeriodSeconds": 1})
        await node.until_gone("a")
        assert await node.holders() == {}


async def test_pods_bound_while_the_kubelet_is_away_are_admitted_when_it_is_back(
    node: OneNode,
) -> None:
    """Before the plugin is: the resource was known, so the pod is refused, not run without."""
    async with Plugin(node.plugins, devices(1)):
        await node.until_counts((1, 1))
        await node.kubelet.stop()
        await node.create(pod_object("early", {GPU: 1}))
        await node.kubelet.start()
        status = (await node.until_phase("early", "Failed"))["status"]
        assert "no healthy devices present" in status["message"]
        (rejection,) = node.kubelet.record.rejections
        assert (rejection.pod, rejection.reason) == ("default/early", "UnexpectedAdmissionError")


async def test_a_refused_pod_gets_a_warning_event(node: OneNode) -> None:
    """With the reason that its status names."""
    async with Plugin(node.plugins, devices(1)):
        await node.until_counts((1, 1))
        await node.create(pod_object("greedy", {GPU: 2}))
        await node.until_phase("greedy", "Failed")

        async def reasons() -> list[str]:
            listed = await node.api.get("/api/v1/namespaces/default/events")
            return [item["reason"] for item in listed["items"]]

        assert await eventually(reasons) == ["UnexpectedAdmissionError"]


async def test_a_killed_kubelet_leaves_its_socket_and_a_new_one_replaces_it(
    node: OneNode,
) -> None:
    """A plugin that calls meanwhile finds nobody; holders are known afterwards."""
    async with Plugin(node.plugins, devices(2)) as plugin:
        await node.until_counts((2, 2))
        await node.create(pod_object("a", {GPU: 1}))
        await node.until_phase("a", "Running")
        await node.kubelet.kill()
        assert (node.plugins / "kubelet.sock").exists()
        with pytest.raises(sockets.UNREACHABLE):
            await plugin.register()
        await node.kubelet.start()
        assert len((await node.holders())["a"]) == 1


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
