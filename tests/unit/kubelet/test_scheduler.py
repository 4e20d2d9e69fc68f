"""The scheduler and the ReplicaSets at an embedded API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from shared.simulation.kube import api_client, paths, replicasets, scheduler
from shared.simulation.kube.apiserver.server import ApiServer
from tests.support.eventually import eventually
from tests.support.one_node import GPU, pod_object

PODS = paths.pods_in("default")


@asynccontextmanager
async def scheduled(
    lags: Mapping[str, float] | None = None,
) -> AsyncIterator[tuple[api_client.ApiClient, ApiServer]]:
    """Run an API server with a scheduler and ReplicaSets."""
    server = ApiServer()
    url = await server.start()
    try:
        async with api_client.ApiClient(url) as api, asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(scheduler.Scheduler(url, lags=lags).run(), name="scheduler"),
                group.create_task(replicasets.ReplicaSets(url).run(), name="replica sets"),
            ]
            yield api, server
            for task in tasks:
                task.cancel()
    finally:
        await server.stop()


async def set_gpus(api: api_client.ApiClient, gpus: int, *, new: bool = False) -> None:
    """Give node gpu-a so many allocatable GPUs."""
    if new:
        await api.create(paths.NODES, {"kind": "Node", "metadata": {"name": "gpu-a"}})
    status = {"capacity": {GPU: str(gpus)}, "allocatable": {GPU: str(gpus)}}
    await api.patch(f"{paths.node('gpu-a')}/status", {"status": status})


async def bound(api: api_client.ApiClient) -> dict[str, str]:
    """Return the node of each bound pod."""
    items = (await api.get(PODS))["items"]
    return {
        item["metadata"]["name"]: item["spec"]["nodeName"]
        for item in items
        if "nodeName" in item["spec"]
    }


async def unschedulable(api: api_client.ApiClient, name: str) -> str:
    """Return why a pod isn't bound, as its PodScheduled condition says."""
    conditions = (await api.get(f"{PODS}/{name}"))["status"].get("conditions", [])
    reasons = [one["message"] for one in conditions if one.get("reason") == "Unschedulable"]
    return reasons[0] if reasons else ""


async def test_pods_are_bound_until_the_node_is_full_and_again_when_there_is_room() -> None:
    """The one too many is told why, and is bound once the node has more."""
    async with scheduled() as (api, _):
        await set_gpus(api, 2, new=True)
        for name in ("a", "b", "c"):
            await api.create(PODS, pod_object(name, {GPU: 1}, node=None))

        async def two_bound() -> bool:
            return len(await bound(api)) == 2

        await eventually(two_bound)
        waiting = ({"a", "b", "c"} - (await bound(api)).keys()).pop()

        async def told() -> bool:
            said = await unschedulable(api, waiting)
            return said == "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."

        await eventually(told)
        (event,) = (await api.get(paths.events("default")))["items"]
        assert (event["reason"], event["involvedObject"]["name"]) == ("FailedScheduling", waiting)
        await set_gpus(api, 3)

        async def all_bound() -> bool:
            return len(await bound(api)) == 3

        await eventually(all_bound)


async def test_a_scheduler_that_sees_a_node_late_binds_to_what_is_no_longer_there() -> None:
    """What a real scheduler does between two status ticks of the kubelet."""
    async with scheduled({"gpu-a": 0.3}) as (api, _):
        await set_gpus(api, 1, new=True)
        await api.create(PODS, pod_object("first", {GPU: 1}, node=None))

        async def first() -> bool:
            return "first" in await bound(api)

        await eventually(first)
        await api.delete(f"{PODS}/first", {"gracePeriodSeconds": 0})
        await set_gpus(api, 0)
        await api.create(PODS, pod_object("late", {GPU: 1}, node=None))

        async def late() -> bool:
            return "late" in await bound(api)

        await eventually(late)


async def test_it_goes_on_when_the_api_server_comes_back() -> None:
    """A break of the watches loses nothing."""
    async with scheduled() as (api, server):
        await set_gpus(api, 1, new=True)
        await server.stop()
        await server.start()
        await api.create(PODS, pod_object("a", {GPU: 1}, node=None))

        async def is_bound() -> bool:
            return "a" in await bound(api)

        await eventually(is_bound)


def owned(name: str) -> dict[str, Any]:
    """Make a pod of the ReplicaSet `web`."""
    pod = pod_object(name, {GPU: 1}, node=None, grace=30)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1"}
    pod["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    return pod


@pytest.mark.parametrize("how", ["evicted", "failed"])
async def test_a_replica_sets_pod_comes_back_under_a_new_name(how: str) -> None:
    """Once for each pod that ended, however often its object changes after that."""
    async with scheduled() as (api, _):
        await set_gpus(api, 1, new=True)
        await api.create(PODS, owned("web-1"))

        async def first() -> bool:
            return "web-1" in await bound(api)

        await eventually(first)
        if how == "evicted":
            eviction = {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": "web-1"},
            }
            await api.create(f"{PODS}/web-1/eviction", eviction)
        else:
            await api.patch(f"{PODS}/web-1/status", {"status": {"phase": "Failed"}})

        async def names() -> set[str]:
            return {item["metadata"]["name"] for item in (await api.get(PODS))["items"]}

        async def replaced() -> bool:
            return bool(await names() - {"web-1"})

        await eventually(replaced)
        await api.delete(f"{PODS}/web-1", {"gracePeriodSeconds": 0})

        async def alone() -> bool:
            return len(await names()) == 1

        await eventually(alone)


async def test_a_pod_without_an_owner_stays_away() -> None:
    """Nobody brings a bare pod back."""
    async with scheduled() as (api, _):
        await api.create(PODS, pod_object("bare", {GPU: 1}, node=None))
        await api.create(PODS, owned("web-1"))
        await api.delete(f"{PODS}/bare", {"gracePeriodSeconds": 0})
        await api.delete(f"{PODS}/web-1", {"gracePeriodSeconds": 0})

        async def names() -> set[str]:
            return {item["metadata"]["name"] for item in (await api.get(PODS))["items"]}

        async def only_web() -> bool:
            return {name.rpartition("-")[0] for name in await names()} == {"web"}

        await eventually(only_web)
