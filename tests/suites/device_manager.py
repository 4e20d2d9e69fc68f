"""What a kubelet does with device plugins, as measured on Kubernetes 1.34.4 and 1.37.2.

Each test is one observed behaviour. A module that runs them gives the fixture `node`: a kubelet
with a folder for plugins, pods to create, and a node object to read.
"""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from grpclib import GRPCError, Status

from shared.kubelet import sockets
from shared.kubelet.podresources.v1 import api_grpc, api_pb2
from tests.support.eventually import eventually
from tests.support.node_view import NAMESPACE, NodeView
from tests.support.one_node import GPU, pod_object
from tests.support.plugin import Plugin


def devices(healthy: int, sick: int = 0, prefix: str = "g") -> dict[str, bool]:
    """Name so many devices: the healthy ones first."""
    return {f"{prefix}{nth}": nth < healthy for nth in range(healthy + sick)}


async def _offers(node: NodeView, wanted: dict[str, bool]) -> bool:
    return await node.offered() == wanted.keys()


class DeviceManagerSuite:
    """Registration to pod-resources, as plugins and pods see it."""

    async def test_what_a_plugin_lists_becomes_capacity(self, node: NodeView) -> None:
        """At the next status tick after its registration."""
        assert await node.counts() is None
        async with Plugin(node.plugins, devices(8)):
            await node.until_counts((8, 8))

    @pytest.mark.parametrize("name", ["gpu", "nvidia.com/GPU shared", "cpu", "kubernetes.io/gpu"])
    async def test_a_bad_resource_name_is_refused_at_registration(
        self, node: NodeView, name: str
    ) -> None:
        """With the kubelet's sentence."""
        async with Plugin(node.plugins, devices(1)) as plugin:
            with pytest.raises(GRPCError) as refused:
                await plugin.register(resource=name)
        assert refused.value.message == f'the ResourceName "{name}" is invalid'

    async def test_another_version_of_the_api_is_refused(self, node: NodeView) -> None:
        """Only v1beta1 is spoken."""
        async with Plugin(node.plugins, devices(1)) as plugin:
            with pytest.raises(GRPCError, match='version "v1alpha1" is not supported by kubelet'):
                await plugin.register(version="v1alpha1")

    async def test_an_unhealthy_device_counts_as_capacity_only(self, node: NodeView) -> None:
        """Capacity stays, allocatable falls; and back when it recovers."""
        async with Plugin(node.plugins, devices(8)) as plugin:
            await node.until_counts((8, 8))
            await plugin.send(devices(6, sick=2))
            await node.until_counts((8, 6))
            await plugin.send(devices(8))
            await node.until_counts((8, 8))

    async def test_the_plugins_proposal_is_honoured(self, node: NodeView) -> None:
        """It is asked with all that is free, before Allocate."""
        async with Plugin(node.plugins, devices(8), preferred=["g5", "g2"]) as plugin:
            await node.until_counts((8, 8))
            await node.create(pod_object("a", {GPU: 2}))
            await node.until_phase("a", "Running")
            (asked,) = plugin.preferred_requests
            assert set(asked.available_deviceIDs) == devices(8).keys()
            assert asked.allocation_size == 2
            assert set(plugin.allocated[0]) == {"g5", "g2"}

    async def test_without_proposals_the_kubelet_chooses_by_itself(self, node: NodeView) -> None:
        """A plugin that doesn't offer GetPreferredAllocation isn't asked."""
        async with Plugin(node.plugins, devices(4)) as plugin:
            await node.until_counts((4, 4))
            await node.create(pod_object("a", {GPU: 3}))
            await node.until_phase("a", "Running")
            assert plugin.preferred_requests == []
            assert len(set(plugin.allocated[0])) == 3

    async def test_each_container_gets_devices_of_its_own(self, node: NodeView) -> None:
        """One Allocate for each; their entries in pod-resources differ."""
        async with Plugin(node.plugins, devices(4)) as plugin:
            await node.until_counts((4, 4))
            await node.create(pod_object("a", {GPU: 1}, {GPU: 2}))
            await node.until_phase("a", "Running")
            first, second = plugin.allocated
            assert (len(first), len(second)) == (1, 2)
            assert not set(first) & set(second)

    async def test_more_than_is_free_fails_the_pod_for_good(self, node: NodeView) -> None:
        """A pod bound past the scheduler is refused in the kubelet's words."""
        async with Plugin(node.plugins, devices(8)):
            await node.until_counts((8, 8))
            await node.create(pod_object("holder", {GPU: 4}))
            await node.until_phase("holder", "Running")
            await node.create(pod_object("greedy", {GPU: 7}))
            status = (await node.until_phase("greedy", "Failed"))["status"]
            assert status["reason"] == "UnexpectedAdmissionError"
            assert status["message"] == (
                "Pod was rejected: Allocate failed due to requested number of devices unavailable "
                "for nvidia.com/gpu. Requested: 7, Available: 4, which is unexpected"
            )

    async def test_a_refusal_by_the_plugin_reaches_the_pod_in_its_words(
        self, node: NodeView
    ) -> None:
        """And what was chosen is free again."""
        async with Plugin(node.plugins, devices(1)) as plugin:
            await node.until_counts((1, 1))
            plugin.refusal = "nvidia.com/gpu: one at a time"
            await node.create(pod_object("a", {GPU: 1}))
            status = (await node.until_phase("a", "Failed"))["status"]
            assert status["reason"] == "UnexpectedAdmissionError"
            assert status["message"] == (
                "Pod was rejected: Allocate failed due to rpc error: code = Unknown "
                "desc = nvidia.com/gpu: one at a time, which is unexpected"
            )
            plugin.refusal = ""
            await node.create(pod_object("b", {GPU: 1}))
            await node.until_phase("b", "Running")

    async def test_fewer_devices_than_in_use_keep_the_pods(self, node: NodeView) -> None:
        """Running pods stay, pod-resources still lists their ids, the counts are the new ones."""
        async with Plugin(node.plugins, devices(4)) as plugin:
            await node.until_counts((4, 4))
            await node.create(pod_object("a", {GPU: 4}))
            await node.until_phase("a", "Running")
            await plugin.send(devices(2))
            await node.until_counts((2, 2))
            assert await node.phase("a") == "Running"
            assert len((await node.holders())["a"]) == 4

    async def test_renamed_ids_are_handed_out_besides_the_old_ones(self, node: NodeView) -> None:
        """The kubelet counts by id: 12 devices in use of "8"."""
        async with Plugin(node.plugins, devices(8)) as plugin:
            await node.until_counts((8, 8))
            await node.create(pod_object("old", {GPU: 4}))
            await node.until_phase("old", "Running")
            await plugin.send(devices(8, prefix="new"))
            await eventually(lambda: _offers(node, devices(8, prefix="new")), within=node.patience)
            await node.create(pod_object("new", {GPU: 8}))
            await node.until_phase("new", "Running")
            held = await node.holders()
            assert (len(held["old"]), len(held["new"])) == (4, 8)

    async def test_a_deleted_pods_devices_are_free_again(self, node: NodeView) -> None:
        """As soon as its containers have ended."""
        async with Plugin(node.plugins, devices(1)):
            await node.until_counts((1, 1))
            await node.create(pod_object("a", {GPU: 1}))
            await node.until_phase("a", "Running")
            await node.delete("a")
            await node.until_gone("a")
            await node.until_held(set())
            await node.create(pod_object("b", {GPU: 1}))
            await node.until_phase("b", "Running")

    async def test_a_plugin_that_goes_takes_its_allocatable_along(self, node: NodeView) -> None:
        """Capacity stays within the grace; a pod bound meanwhile fails; a new Register mends it."""
        async with Plugin(node.plugins, devices(8)):
            await node.until_counts((8, 8))
        await node.until_counts((8, 0))
        await node.create(pod_object("a", {GPU: 1}))
        status = (await node.until_phase("a", "Failed"))["status"]
        assert "no healthy devices present; cannot allocate unhealthy devices" in status["message"]
        async with Plugin(node.plugins, devices(8)):
            await node.until_counts((8, 8))

    async def test_a_second_endpoint_takes_the_resource_over(self, node: NodeView) -> None:
        """And keeps it when the first one ends."""
        async with contextlib.AsyncExitStack() as older:
            first = Plugin(node.plugins, devices(8), endpoint="first.sock")
            await older.enter_async_context(first)
            await node.until_counts((8, 8))
            async with Plugin(node.plugins, devices(5), endpoint="second.sock") as second:
                await node.until_counts((5, 5))
                await older.aclose()
                await second.send(devices(4))
                await node.until_counts((4, 4))
                assert second.streams == 1
            await node.until_counts((4, 0))

    async def test_the_first_endpoint_serves_again_when_the_second_ends(
        self, node: NodeView
    ) -> None:
        """But the second one's list counts until the first sends its own."""
        async with Plugin(node.plugins, devices(8), endpoint="first.sock") as first:
            await node.until_counts((8, 8))
            async with Plugin(node.plugins, devices(5), endpoint="second.sock"):
                await node.until_counts((5, 5))
            await asyncio.sleep(3)  # three ticks of the status, in which nothing must happen
            assert await node.counts() == (5, 5)
            await node.create(pod_object("a", {GPU: 1}))
            await node.until_phase("a", "Running")
            assert len(first.allocated) == 1
            await first.send(devices(8))
            await node.until_counts((8, 8))

    async def test_a_restarted_kubelet_waits_for_plugins_to_come_again(
        self, node: NodeView
    ) -> None:
        """Sockets removed, capacity 0, pods and their ids kept; all well after a new Register."""
        async with Plugin(node.plugins, devices(4)) as plugin:
            await node.until_counts((4, 4))
            await node.create(pod_object("a", {GPU: 2}))
            await node.until_phase("a", "Running")
            before = await node.holders()
            former = await sockets.identity(node.plugins / "kubelet.sock")
            await node.kubelet.restart()
            assert await sockets.identity(node.plugins / "kubelet.sock") != former
            assert not (node.plugins / plugin.endpoint).exists()
            await node.until_counts((0, 0))
            await node.until_held({"a"})  # not at once: it has to hear of its pods first
            after = await node.holders()
            assert sorted(after["a"]) == sorted(before["a"])
            await plugin.serve_again()
            await node.until_counts((4, 4))
            await node.create(pod_object("b", {GPU: 2}))
            await node.until_phase("b", "Running")
            held = [ids for entries in (await node.holders()).values() for _, ids in entries]
            assert len(set(held)) == 4

    async def test_pod_resources_gives_each_device_an_entry_of_its_own(
        self, node: NodeView
    ) -> None:
        """The resource name repeats; pods without devices are listed as well."""
        async with Plugin(node.plugins, devices(4)):
            await node.until_counts((4, 4))
            await node.create(pod_object("a", {GPU: 3}))
            await node.create(pod_object("plain", {}))
            await node.until_phase("a", "Running")
            await node.until_phase("plain", "Running")
            held = await node.holders()
            assert [name for name, _ in held["a"]] == [GPU] * 3
            assert all(len(ids) == 1 for _, ids in held["a"])
            assert held["plain"] == []

    async def test_pod_resources_tells_of_one_pod_and_of_all_devices(self, node: NodeView) -> None:
        """Get answers for a pod, or that there is none; sick devices are not allocatable."""
        async with Plugin(node.plugins, devices(2, sick=1)):
            await node.until_counts((3, 2))
            await node.create(pod_object("a", {GPU: 1}))
            await node.until_phase("a", "Running")
            async with sockets.channel(node.kubelet.pod_resources_socket) as channel:
                stub = api_grpc.PodResourcesListerStub(channel)
                known = api_pb2.GetPodResourcesRequest(pod_name="a", pod_namespace=NAMESPACE)
                answer = await stub.Get(known)
                assert answer.pod_resources.containers[0].devices[0].resource_name == GPU
                unknown = api_pb2.GetPodResourcesRequest(pod_name="b", pod_namespace=NAMESPACE)
                with pytest.raises(GRPCError, match="pod b in namespace default not found"):
                    await stub.Get(unknown)
            assert await node.offered() == {"g0", "g1"}

    async def test_a_caller_that_asks_too_often_is_refused(self, node: NodeView) -> None:
        """With the status that tells it to come back later."""
        async with sockets.channel(node.kubelet.pod_resources_socket) as channel:
            stub = api_grpc.PodResourcesListerStub(channel)
            calls = [stub.List(api_pb2.ListPodResourcesRequest()) for _ in range(200)]
            answers = await asyncio.gather(*calls, return_exceptions=True)
        refusals = [answer for answer in answers if isinstance(answer, GRPCError)]
        assert {refusal.status for refusal in refusals} == {Status.RESOURCE_EXHAUSTED}
        assert {refusal.message for refusal in refusals} == {"rejected by rate limit"}
        assert len(refusals) < 200

    async def test_what_the_plugin_answers_is_in_the_container(self, node: NodeView) -> None:
        """Environment and device nodes; a variable that the pod sets itself wins."""
        async with Plugin(node.plugins, devices(2)):
            await node.until_counts((2, 2))
            await node.create(pod_object("a", {GPU: 2}, env={"OWN": "1"}))
            await node.create(pod_object("plain", {}, env={"DEVICES": "mine"}))
            await node.until_phase("a", "Running")
            await node.until_phase("plain", "Running")
            a, plain = await node.inside("a"), await node.inside("plain")
            assert (a.environment["DEVICES"], a.environment["OWN"]) == ("g0,g1", "1")
            assert "/dev/nvidia0" in a.devices
            assert plain.environment["DEVICES"] == "mine"
            assert "/dev/nvidia0" not in plain.devices

    async def test_an_app_container_takes_over_its_init_containers_devices(
        self, node: NodeView
    ) -> None:
        """The one device is allocated twice."""
        async with Plugin(node.plugins, devices(1), preferred=[]) as plugin:
            await node.until_counts((1, 1))
            await node.create(pod_object("a", {GPU: 1}, init=({GPU: 1},)))
            await node.until_phase("a", "Running")
            assert plugin.allocated == [("g0",)] * 2
            assert (await node.holders())["a"] == [(GPU, ("g0",))]

    async def test_what_is_taken_over_must_be_in_the_plugins_proposal(self, node: NodeView) -> None:
        """A larger app container asks for the rest, naming what it has already."""
        async with Plugin(node.plugins, devices(4), preferred=["g1", "g2"]) as plugin:
            await node.until_counts((4, 4))
            await node.create(pod_object("a", {GPU: 2}, init=({GPU: 1},)))
            await node.until_phase("a", "Running")
            first, second = plugin.preferred_requests
            assert list(first.must_include_deviceIDs) == []
            # of a proposal that is too long, a real kubelet takes any part
            assert tuple(second.must_include_deviceIDs) == plugin.allocated[0]
            assert set(plugin.allocated[0]) <= set(second.available_deviceIDs)
            assert set(plugin.allocated[1]) == {"g1", "g2"}

    async def test_a_finished_pods_devices_are_free(self, node: NodeView) -> None:
        """It is listed no more, though its object stands."""
        async with Plugin(node.plugins, devices(1)):
            await node.until_counts((1, 1))
            await node.create(pod_object("job", {GPU: 1}))
            await node.until_phase("job", "Running")
            await node.kubelet.finish(f"{NAMESPACE}/job")
            await node.until_phase("job", "Succeeded")
            await node.until_held(set())
            await node.create(pod_object("next", {GPU: 1}))
            await node.until_phase("next", "Running")

    async def test_a_deleted_pod_holds_its_device_while_its_grace_lasts(
        self, node: NodeView
    ) -> None:
        """A second deletion with less grace comes too late; one by force frees the device."""
        async with Plugin(node.plugins, devices(1)):
            await node.until_counts((1, 1))
            await node.create(pod_object("a", {GPU: 1}, grace=600, stubborn=True))
            await node.until_phase("a", "Running")
            await node.delete("a")
            await node.delete("a", grace=1)
            assert (await node.read("a"))["metadata"]["deletionGracePeriodSeconds"] == 1
            await asyncio.sleep(3)  # what must not happen within the shorter grace
            assert (await node.holders())["a"]
            await node.delete("a", grace=0)
            await node.until_held(set())
            await node.create(pod_object("b", {GPU: 1}))
            await node.until_phase("b", "Running")

    async def test_a_refused_pod_gets_a_warning_event(self, node: NodeView) -> None:
        """With the reason that its status names; a real one adds that it mounted nothing."""
        async with Plugin(node.plugins, devices(1)):
            await node.until_counts((1, 1))
            await node.create(pod_object("greedy", {GPU: 2}))
            warnings = await eventually(lambda: node.warnings("greedy"), within=node.patience)
            assert "UnexpectedAdmissionError" in warnings

    async def test_pods_bound_while_the_kubelet_is_away_come_before_the_plugin(
        self, node: NodeView
    ) -> None:
        """The resource was known, so such a pod is refused for good, not run without."""
        async with Plugin(node.plugins, devices(1)):
            await node.until_counts((1, 1))
            await node.kubelet.stop()
            await node.create(pod_object("early", {GPU: 1}))
            await node.kubelet.start()
            status = (await node.until_phase("early", "Failed"))["status"]
            assert status["reason"] == "UnexpectedAdmissionError"
            assert "no healthy devices present" in status["message"]

    async def test_a_killed_kubelet_knows_holders_when_it_is_back(self, node: NodeView) -> None:
        """It leaves its socket; a plugin that calls meanwhile finds nobody."""
        async with Plugin(node.plugins, devices(2)) as plugin:
            await node.until_counts((2, 2))
            await node.create(pod_object("a", {GPU: 1}))
            await node.until_phase("a", "Running")
            await node.kubelet.kill()
            assert (node.plugins / "kubelet.sock").exists()
            with pytest.raises(sockets.UNREACHABLE):
                await plugin.register()
            await node.kubelet.start()
            await node.until_held({"a"})

    async def test_a_list_over_four_mebibytes_ends_the_stream(self, node: NodeView) -> None:
        """The kubelet's gRPC library takes no larger message."""
        async with Plugin(node.plugins, devices(2)) as plugin:
            await node.until_counts((2, 2))
            await plugin.send({f"{nth:060}": True for nth in range(70_000)})
            await node.until_counts((2, 0))
