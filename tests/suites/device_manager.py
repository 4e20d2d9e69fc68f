"""What a kubelet does with device plugins, as measured on Kubernetes 1.34.4 and 1.37.2.

Each test is one observed behaviour. A module that runs them gives the fixture `node`: a kubelet
with a folder for plugins, pods to create, and a node object to read.
"""

from __future__ import annotations

import contextlib

import pytest
from grpclib import GRPCError

from shared.kubelet import sockets
from tests.support.eventually import eventually
from tests.support.one_node import GPU, OneNode, pod_object
from tests.support.plugin import Plugin


def devices(healthy: int, sick: int = 0, prefix: str = "g") -> dict[str, bool]:
    """Name so many devices: the healthy ones first."""
    return {f"{prefix}{nth}": nth < healthy for nth in range(healthy + sick)}


class DeviceManagerSuite:
    """Registration to pod-resources, as plugins and pods see it."""

    async def test_what_a_plugin_lists_becomes_capacity(self, node: OneNode) -> None:
        """At the next status tick after its registration."""
        assert await node.counts() is None
        async with Plugin(node.plugins, devices(8)):
            await node.until_counts((8, 8))

    @pytest.mark.parametrize("name", ["gpu", "nvidia.com/GPU shared", "cpu", "kubernetes.io/gpu"])
    async def test_a_bad_resource_name_is_refused_at_registration(
        self, node: OneNode, name: str
    ) -> None:
        """With the kubelet's sentence."""
        async with Plugin(node.plugins, devices(1)) as plugin:
            with pytest.raises(GRPCError) as refused:
                await plugin.register(resource=name)
        assert refused.value.message == f'the ResourceName "{name}" is invalid'

    async def test_another_version_of_the_api_is_refused(self, node: OneNode) -> None:
        """Only v1beta1 is spoken."""
        async with Plugin(node.plugins, devices(1)) as plugin:
            with pytest.raises(GRPCError, match='version "v1alpha1" is not supported by kubelet'):
                await plugin.register(version="v1alpha1")

    async def test_an_unhealthy_device_counts_as_capacity_only(self, node: OneNode) -> None:
        """Capacity stays, allocatable falls; and back when it recovers."""
        async with Plugin(node.plugins, devices(8)) as plugin:
            await node.until_counts((8, 8))
            await plugin.send(devices(6, sick=2))
            await node.until_counts((8, 6))
            await plugin.send(devices(8))
            await node.until_counts((8, 8))

    async def test_the_plugins_proposal_is_honoured(self, node: OneNode) -> None:
        """It is asked with all that is free, before Allocate."""
        async with Plugin(node.plugins, devices(8), preferred=["g5", "g2"]) as plugin:
            await node.until_counts((8, 8))
            await node.create(pod_object("a", {GPU: 2}))
            await node.until_phase("a", "Running")
            (asked,) = plugin.preferred_requests
            assert set(asked.available_deviceIDs) == devices(8).keys()
            assert asked.allocation_size == 2
            assert set(plugin.allocated[0]) == {"g5", "g2"}

    async def test_without_proposals_the_kubelet_chooses_by_itself(self, node: OneNode) -> None:
        """A plugin that doesn't offer GetPreferredAllocation isn't asked."""
        async with Plugin(node.plugins, devices(4)) as plugin:
            await node.until_counts((4, 4))
            await node.create(pod_object("a", {GPU: 3}))
            await node.until_phase("a", "Running")
            assert plugin.preferred_requests == []
            assert len(set(plugin.allocated[0])) == 3

    async def test_each_container_gets_devices_of_its_own(self, node: OneNode) -> None:
        """One Allocate for each; their entries in pod-resources differ."""
        async with Plugin(node.plugins, devices(4)) as plugin:
            await node.until_counts((4, 4))
            await node.create(pod_object("a", {GPU: 1}, {GPU: 2}))
            await node.until_phase("a", "Running")
            first, second = plugin.allocated
            assert (len(first), len(second)) == (1, 2)
            assert not set(first) & set(second)

    async def test_more_than_is_free_fails_the_pod_for_good(self, node: OneNode) -> None:
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
        self, node: OneNode
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

    async def test_fewer_devices_than_in_use_keep_the_pods(self, node: OneNode) -> None:
        """Running pods stay, pod-resources still lists their ids, the counts are the new ones."""
        async with Plugin(node.plugins, devices(4)) as plugin:
            await node.until_counts((4, 4))
            await node.create(pod_object("a", {GPU: 4}))
            await node.until_phase("a", "Running")
            await plugin.send(devices(2))
            await node.until_counts((2, 2))
            assert await node.phase("a") == "Running"
            assert len((await node.holders())["a"]) == 4

    async def test_renamed_ids_are_handed_out_besides_the_old_ones(self, node: OneNode) -> None:
        """The kubelet counts by id: 12 devices in use of "8"."""
        async with Plugin(node.plugins, devices(8)) as plugin:
            await node.until_counts((8, 8))
            await node.create(pod_object("old", {GPU: 4}))
            await node.until_phase("old", "Running")
            await plugin.send(devices(8, prefix="new"))
            await eventually(lambda: len(node.kubelet.record.lists) == 2)
            await node.create(pod_object("new", {GPU: 8}))
            await node.until_phase("new", "Running")
            held = await node.holders()
            assert (len(held["old"]), len(held["new"])) == (4, 8)

    async def test_a_deleted_pods_devices_are_free_again(self, node: OneNode) -> None:
        """As soon as its containers have ended."""
        async with Plugin(node.plugins, devices(1)):
            await node.until_counts((1, 1))
            await node.create(pod_object("a", {GPU: 1}))
            await node.until_phase("a", "Running")
            await node.delete("a")
            await node.until_gone("a")
            assert await node.holders() == {}
            await node.create(pod_object("b", {GPU: 1}))
            await node.until_phase("b", "Running")

    async def test_a_plugin_that_goes_takes_its_allocatable_along(self, node: OneNode) -> None:
        """Capacity stays within the grace; a pod bound meanwhile fails; a new Register mends it."""
        async with Plugin(node.plugins, devices(8)):
            await node.until_counts((8, 8))
        await node.until_counts((8, 0))
        await node.create(pod_object("a", {GPU: 1}))
        status = (await node.until_phase("a", "Failed"))["status"]
        assert "no healthy devices present; cannot allocate unhealthy devices" in status["message"]
        async with Plugin(node.plugins, devices(8)):
            await node.until_counts((8, 8))

    async def test_a_second_endpoint_takes_the_resource_over(self, node: OneNode) -> None:
        """And the end of the first one cuts the second off, although it still serves."""
        async with contextlib.AsyncExitStack() as older:
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

    async def test_a_restarted_kubelet_waits_for_plugins_to_come_again(self, node: OneNode) -> None:
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
            after = await node.holders()
            assert sorted(after["a"]) == sorted(before["a"])
            await plugin.serve_again()
            await node.until_counts((4, 4))
            await node.create(pod_object("b", {GPU: 2}))
            await node.until_phase("b", "Running")
            held = [ids for entries in (await node.holders()).values() for _, ids in entries]
            assert len(set(held)) == 4

    async def test_pod_resources_gives_each_device_an_entry_of_its_own(self, node: OneNode) -> None:
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
