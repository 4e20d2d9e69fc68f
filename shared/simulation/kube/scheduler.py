"""A small scheduler: pending pods are bound where their extended resources fit.

It reads nodes and pods from an API server and writes bindings, PodScheduled conditions and
FailedScheduling Events. Like the real one it decides on what it has seen so far; `lags` makes it
see some nodes late, so that it binds pods to devices that are no longer there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from shared.runtime import clock
from shared.simulation.kube import api_client, paths, placement, pod_events
from shared.simulation.kube.apiserver import moments

NAME: Final = "default-scheduler"

_log = logging.getLogger(__name__)


class Scheduler:
    """Schedules for one API server. `lags`: seconds behind, by node."""

    def __init__(self, api_url: str, *, lags: Mapping[str, float] | None = None) -> None:
        self._api_url = api_url
        self._lags = dict(lags or {})
        self._nodes: dict[str, dict[str, Any]] = {}
        self._pods: dict[str, dict[str, Any]] = {}
        self._bound: dict[str, str] = {}
        self._told: dict[str, str] = {}
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Schedule until cancelled."""
        async with api_client.ApiClient(self._api_url) as api, asyncio.TaskGroup() as group:
            group.create_task(self._follow_nodes(api), name="scheduler's nodes")
            group.create_task(self._follow_pods(api), name="scheduler's pods")
            group.create_task(self._schedule(api), name="scheduler")

    async def _follow_nodes(self, api: api_client.ApiClient) -> None:
        loop = asyncio.get_running_loop()
        async for change in api.follow(paths.NODES):
            lag = self._lags.get(change.object["metadata"]["name"], 0.0)
            if lag:
                loop.call_later(lag, self._see_node, change)
            else:
                self._see_node(change)

    def _see_node(self, change: api_client.Change) -> None:
        _keep(self._nodes, change)
        self._changed.set()

    async def _follow_pods(self, api: api_client.ApiClient) -> None:
        async for change in api.follow(paths.PODS):
            self._see_pod(change)

    def _see_pod(self, change: api_client.Change) -> None:
        """Take a pod as the watch tells it; one that we bound counts as bound even before that."""
        _keep(self._pods, change)
        if change.gone:
            self._told.pop(change.uid, None)
            self._bound.pop(change.uid, None)
        elif change.uid in self._bound:
            change.object["spec"]["nodeName"] = self._bound[change.uid]
        self._changed.set()

    async def _schedule(self, api: api_client.ApiClient) -> None:
        """Try every pending pod whenever something has changed."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            for pod in sorted(filter(_is_pending, self._pods.values()), key=_age):
                found = placement.place(pod, self._nodes.values(), self._pods.values())
                try:
                    await self._answer(api, pod, found)
                except api_client.ApiRefusedError as refused:  # deleted or bound meanwhile
                    _log.info("%s", refused)

    async def _answer(
        self, api: api_client.ApiClient, pod: dict[str, Any], found: placement.Placement
    ) -> None:
        """Bind a pod, or say why not (once for each reason)."""
        uid, path = pod["metadata"]["uid"], paths.pod(pod)
        if found.node is not None:
            await api.create(f"{path}/binding", _binding(pod, found.node))
            self._bound[uid] = pod["spec"]["nodeName"] = found.node
        elif self._told.get(uid) != found.message:
            self._told[uid] = found.message
            await api.patch(f"{path}/status", _unschedulable(found.message))
            now = moments.to_time(clock.now_ns())
            source = {"component": NAME}
            event = pod_events.warning(pod, "FailedScheduling", found.message, now, source)
            await api.create(paths.events(pod["metadata"]["namespace"]), event)


def _keep(objects: dict[str, dict[str, Any]], change: api_client.Change) -> None:
    if change.gone:
        objects.pop(change.uid, None)
    else:
        objects[change.uid] = change.object


def _is_pending(pod: dict[str, Any]) -> bool:
    """Whether a pod is ours to bind."""
    return (
        not pod["spec"].get("nodeName")
        and "deletionTimestamp" not in pod["metadata"]
        and pod["spec"].get("schedulerName", NAME) == NAME
        and not placement.is_terminal(pod)
    )


def _age(pod: dict[str, Any]) -> tuple[str, str]:
    return pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]


def _binding(pod: dict[str, Any], node: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def _unschedulable(message: str) -> dict[str, Any]:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
    }
    return {"status": {"conditions": [condition]}}
