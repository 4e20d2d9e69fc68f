"""Following objects: lists, watches, cuts, forgotten versions, restarts of the API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from services.reconfigurer.controller import kube, nodes, watch
from shared.simulation.kube.apiserver import faults
from tests.integration.controller import cluster
from tests.support.eventually import eventually

NODES = watch.Feed(says="nodes", path="/api/v1/nodes", metadata_only=True)


@dataclass
class Seen:
    """A follower that remembers."""

    nodes: dict[str, nodes.Node] = field(default_factory=dict)
    lists: int = 0
    kinds: set[str] = field(default_factory=set)

    def replaced(self, objects: list[kube.Json]) -> None:
        self.lists += 1
        self.nodes = {node.name: node for node in map(nodes.node_of, objects)}

    def changed(self, found: kube.Json) -> None:
        node = nodes.node_of(found)
        self.nodes[node.name] = node
        self.kinds.add(found["kind"])

    def gone(self, found: kube.Json) -> None:
        del self.nodes[found["metadata"]["name"]]

    def label(self, name: str, key: str) -> str | None:
        return self.nodes[name].labels.get(key) if name in self.nodes else None


@contextlib.asynccontextmanager
async def following(at: cluster.Cluster) -> AsyncIterator[Seen]:
    """A follower of all nodes, up to date with the first list."""
    seen = Seen()
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(watch.follow(at.api, NODES, seen, lambda: 0.0))
        await eventually(lambda: seen.lists and at.server.watches)
        yield seen
        task.cancel()


async def test_objects_are_listed_in_pages_then_followed_as_metadata(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nodes that exist are listed, those that come, change and go are told, as metadata only."""
    monkeypatch.setattr(watch, "PAGE", 2)
    async with cluster.running() as at:
        for number in range(5):
            at.add_node(f"gpu-{number}")
        async with following(at) as seen:
            assert sorted(seen.nodes) == [f"gpu-{number}" for number in range(5)]
            at.add_node("gpu-9", {"team": "vision"})
            await at.patch_node("gpu-0", labels={"team": "speech"})
            await at.api.call("DELETE", "/api/v1/nodes/gpu-1")
            await eventually(lambda: "gpu-1" not in seen.nodes)
            assert seen.label("gpu-9", "team") == "vision"
            assert seen.label("gpu-0", "team") == "speech"
            assert seen.kinds == {"PartialObjectMetadata"}
            assert seen.lists == 1


async def test_a_cut_watch_resumes_without_a_second_list() -> None:
    """A connection that breaks is resumed where it was; nothing in between is lost."""
    cuts = [faults.CutWatch(after_events=1), faults.CutWatch(after_events=0)]

    async def fault(call: faults.Call) -> faults.Fault | None:
        return cuts.pop() if call.is_watch and cuts else None

    async with cluster.running(fault=fault) as at:
        at.add_node("gpu-a")
        async with following(at) as seen:
            for step in ("1", "2", "3"):
                await at.patch_node("gpu-a", labels={"step": step})
            await eventually(lambda: seen.label("gpu-a", "step") == "3")
            assert not cuts
            assert seen.lists == 1


async def test_a_forgotten_version_is_answered_by_a_fresh_list() -> None:
    """After 410 Expired everything is listed again, and what was deleted meanwhile is gone."""
    async with cluster.running() as at:
        at.add_node("gpu-a")
        at.add_node("gpu-b")
        async with following(at) as seen:
            await at.server.stop()
            await at.server.start()
            await at.api.call("DELETE", "/api/v1/nodes/gpu-b")
            at.server.compact()
            await eventually(lambda: "gpu-b" not in seen.nodes)
            assert seen.lists == 2
            await at.patch_node("gpu-a", labels={"after": "yes"})
            await eventually(lambda: seen.label("gpu-a", "after") == "yes")


@pytest.mark.parametrize(("code", "lists"), [(500, 2), (429, 1)])
async def test_a_version_that_is_refused_again_and_again_is_not_asked_for_for_ever(
    code: int, lists: int
) -> None:
    """After three refusals everything is listed anew; a busy server is spared that."""
    versions: list[str] = []

    async def fault(call: faults.Call) -> faults.Fault | None:
        if not call.is_watch:
            return None
        versions.append(call.query["resourceVersion"])
        if versions[-1] == versions[0] and len(versions) < 5:
            return faults.Refuse(code, retry_after=0)
        return None

    async with cluster.running(fault=fault) as at:
        at.add_node("gpu-a")
        seen = Seen()
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(watch.follow(at.api, NODES, seen, lambda: 0.0))
            await eventually(lambda: versions)
            at.add_node("gpu-b")  # so that a fresh list has another version
            await eventually(lambda: seen.lists == lists and "gpu-b" in seen.nodes)
            await at.patch_node("gpu-a", labels={"after": "yes"})
            await eventually(lambda: seen.label("gpu-a", "after") == "yes")
            assert seen.lists == lists
            task.cancel()


async def test_refused_requests_are_tried_again() -> None:
    """An API server that answers 503 for a while ends nothing."""
    refusals = [faults.Refuse(503), faults.Refuse(429, retry_after=1), faults.Refuse(500)]

    async def fault(call: faults.Call) -> faults.Fault | None:
        return refusals.pop() if call.path == NODES.path and refusals else None

    async with cluster.running(fault=fault) as at:
        at.add_node("gpu-a")
        async with following(at) as seen:
            assert "gpu-a" in seen.nodes


async def test_a_silent_connection_counts_as_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch on which nothing comes, not even a bookmark, is opened anew."""
    monkeypatch.setattr(watch, "IDLE_S", 0.1)
    watches = []

    async def fault(call: faults.Call) -> faults.Fault | None:
        watches.extend([call] if call.is_watch else [])
        return None

    async with cluster.running(fault=fault) as at, following(at) as seen:
        await eventually(lambda: len(watches) >= 3)
        assert seen.lists == 1
