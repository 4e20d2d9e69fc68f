"""Watches over their whole life: too old, silent, cut, and counted."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from shared.simulation.kube.apiserver import ApiServer, faults, kinds
from shared.simulation.kube.apiserver.store import Feed
from tests.suites.kube_cluster import Cluster, node
from tests.support.eventually import eventually

NODES = "/api/v1/nodes"


async def _versions(cluster: Cluster) -> tuple[str, str]:
    """Return the resourceVersions of two nodes created one after the other."""
    created = [await cluster.core.create_node(node(name)) for name in ("n1", "n2")]
    first, second = (each.metadata.resource_version for each in created)
    return first, second


@pytest.mark.parametrize("how", ["compact", "restart"])
async def test_older_resume_points_are_gone(cluster: Cluster, how: str) -> None:
    """After a compaction and after a restart a watch from before is 410, one from now is not."""
    first, second = await _versions(cluster)
    await {"compact": cluster.compact, "restart": cluster.restart}[how]()
    (error,) = await cluster.watch(NODES, {"resourceVersion": first})
    assert error["type"] == "ERROR"
    assert error["object"]["message"] == f"too old resource version: {first} ({second})"
    await cluster.core.create_node(node("n3"))
    (event,) = await cluster.watch(NODES, {"resourceVersion": second})
    assert event["object"]["metadata"]["name"] == "n3"


async def test_window_forgets_the_oldest_changes() -> None:
    """Only so many changes a kind can be replayed."""
    server = ApiServer(window=2)
    for name in ("n1", "n2", "n3"):
        server.objects.create(kinds.NODE, "", node(name))
    first = server.store.floor(kinds.NODE)
    assert len(server.store.since(kinds.NODE, first)) == 2


async def test_objects_and_address_outlive_a_restart(server: ApiServer, cluster: Cluster) -> None:
    """What was stored is there again, at the same address."""
    await cluster.core.create_node(node("n1"))
    before = server.address
    await server.stop()
    assert not server.is_serving
    with pytest.raises(aiohttp.ClientConnectionError):
        await cluster.core.list_node()
    assert await server.start() == before
    with pytest.raises(RuntimeError, match="stop it first"):
        await server.start()
    assert [each.metadata.name for each in (await cluster.core.list_node()).items] == ["n1"]


async def test_page_token_expires_with_its_state(cluster: Cluster) -> None:
    """A token from before a compaction is answered 410 itself, not by an event."""
    await _versions(cluster)
    page = await cluster.read(f"{NODES}?limit=1")
    await cluster.compact()
    response = await cluster.request(
        "GET", NODES, query=[("limit", "1"), ("continue", page["metadata"]["continue"])]
    )
    assert response.status == 410
    assert (await response.json())["reason"] == "Expired"


async def test_pages_are_of_one_state(cluster: Cluster) -> None:
    """What comes after the first page is not in the later ones."""
    await _versions(cluster)
    page = await cluster.read(f"{NODES}?limit=1")
    await cluster.core.create_node(node("n3"))
    rest = await cluster.read(f"{NODES}?continue={page['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in rest["items"]] == ["n2"]
    assert rest["metadata"]["resourceVersion"] == page["metadata"]["resourceVersion"]


async def test_watch_of_the_future_is_silent(cluster: Cluster, server: ApiServer) -> None:
    """A watch from a resourceVersion that has not come sends nothing until it is passed."""
    future = str(server.store.version + 2)
    async with asyncio.TaskGroup() as group:
        query = {"resourceVersion": future, "timeoutSeconds": "5"}
        watching = group.create_task(cluster.watch(NODES, query), name="watch of the future")
        await eventually(lambda: server.watches == 1)
        for name in ("n1", "n2", "n3"):
            await cluster.core.create_node(node(name))
    assert [event["object"]["metadata"]["name"] for event in watching.result()] == ["n3"]


async def test_open_watches_and_requests_are_counted(server: ApiServer, cluster: Cluster) -> None:
    """A watch counts while it is open, and no longer once its client is gone."""
    before = server.requests
    first = await cluster.request("GET", f"{NODES}?watch=true")
    second = await cluster.request("GET", f"{NODES}?watch=true")
    assert (server.watches, server.requests) == (2, before + 2)
    first.close()
    await eventually(lambda: server.watches == 1)
    await server.stop()
    assert server.watches == 0
    assert await second.content.read() == b""


async def test_watch_that_cannot_keep_up_ends() -> None:
    """A feed that overflows is closed, so that its client lists anew."""
    server = ApiServer()
    feed = Feed(limit=1)
    for name in ("n1", "n2"):
        server.objects.create(kinds.NODE, "", node(name))
    for change in server.store.since(kinds.NODE, 0):
        feed.push(change)
    assert feed.closed
    await feed.ready()


async def test_cut_watch(server: ApiServer, cluster: Cluster) -> None:
    """A cut breaks the connection after so many events, in the middle of what waits."""

    async def cut_watches(call: faults.Call) -> faults.Fault | None:
        return faults.CutWatch(after_events=2) if call.is_watch else None

    server.fault = cut_watches
    for name in ("n1", "n2", "n3"):
        await cluster.core.create_node(node(name))
    response = await cluster.request("GET", f"{NODES}?watch=true")
    assert b'"n1"' in await response.content.readline()
    assert b'"n2"' in await response.content.readline()
    with pytest.raises(aiohttp.ClientPayloadError):
        await response.content.readline()
    await eventually(lambda: server.watches == 0)
