"""What a fault hook does to requests, seen from a client."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from shared.simulation.kube.apiserver import ApiServer, faults
from tests.suites.kube_cluster import Cluster, node

NODES = "/api/v1/nodes"


@pytest.mark.parametrize(
    ("code", "retry_after", "reason"),
    [(429, 1, "TooManyRequests"), (500, None, "InternalError"), (503, None, "ServiceUnavailable")],
)
async def test_refused_by_a_fault(
    server: ApiServer, cluster: Cluster, code: int, retry_after: int | None, reason: str
) -> None:
    """A refused request does nothing and gets a Status, with Retry-After where one was given."""

    async def refuse(_: faults.Call) -> faults.Fault | None:
        return faults.Refuse(code, retry_after)

    server.fault = refuse
    response = await cluster.request("POST", NODES, node("n1"))
    assert response.status == code
    assert (await response.json())["reason"] == reason
    assert response.headers.get("Retry-After") == (str(retry_after) if retry_after else None)
    assert server.store.list("nodes") == []


async def test_dropped_answer(
    server: ApiServer, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The write happened and the client was never told; that is no error of the server's."""

    async def drop_answers_of_writes(call: faults.Call) -> faults.Fault | None:
        return faults.DropAnswer() if call.method == "POST" else None

    server.fault = drop_answers_of_writes
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await cluster.request("POST", NODES, node("n1"))
    assert server.store.get("nodes", "", "n1") is not None
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_delayed_request(server: ApiServer, cluster: Cluster) -> None:
    """A hook that waits holds its request back, and no other."""
    gate = asyncio.Event()

    async def hold_writes(call: faults.Call) -> faults.Fault | None:
        if call.method == "POST":
            await gate.wait()
        return None

    server.fault = hold_writes
    async with asyncio.TaskGroup() as group:
        writing = group.create_task(cluster.request("POST", NODES, node("n1")), name="held write")
        assert (await cluster.read(NODES))["items"] == []
        gate.set()
    assert writing.result().status == 201


async def test_lagging_watch(server: ApiServer, cluster: Cluster) -> None:
    """Events come later than the writes they tell of, all that waited at once."""

    async def lag_watches(call: faults.Call) -> faults.Fault | None:
        return faults.LagWatch(0.2) if call.is_watch else None

    server.fault = lag_watches
    response = await cluster.request("GET", f"{NODES}?watch=true")
    for name in ("n1", "n2"):
        await cluster.core.create_node(node(name))
    started = asyncio.get_running_loop().time()
    first, second = [await response.content.readline() for _ in range(2)]
    assert b'"n1"' in first
    assert b'"n2"' in second
    assert asyncio.get_running_loop().time() - started > 0.1
    response.close()
