"""Nodes, pods and Events of a real cluster as they are now, followed from the story's beginning."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any, NoReturn

from services.rehearsal import matching
from shared.simulation.kube import paths
from shared.simulation.kube.api_client import ApiClient, Change

EVENTS = "/api/v1/events"
REFUSED = "UnexpectedAdmissionError"
EVICTED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
Object = Mapping[str, Any]


class Seen:
    """What the API server has shown. Events that stood before the story count as never seen."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._old: dict[str, str] = {}  # version of each Event that stood before, by its uid
        self._events: dict[str, Object] = {}
        self._rejected: dict[str, str] = {}  # the node of each pod that was refused, by its uid
        self._evicted: set[str] = set()
        self.nodes: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}

    async def begin(self) -> None:
        """Note what is there before the story."""
        listed = await self._api.get(EVENTS)
        for event in listed["items"]:
            self._old[event["metadata"]["uid"]] = event["metadata"]["resourceVersion"]
        for pod in (await self._api.get(paths.PODS))["items"]:
            self._note_pod(Change(pod))
        for node in (await self._api.get(paths.NODES))["items"]:
            self._note_node(Change(node))

    async def run(self) -> None:
        """Follow for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_nodes(), name="follow nodes")
            tasks.create_task(self._follow_pods(), name="follow pods")
            tasks.create_task(self._follow_events(), name="follow Events")

    def rejections(self) -> Counter[str]:
        """How many pods each node's kubelet has refused."""
        return Counter(self._rejected.values())

    def evicted(self, pod: str) -> bool:
        """Whether `namespace/name` has been evicted; one made anew under the name has not."""
        return pod in self._evicted

    def events(self, kind: str, namespace: str, name: str) -> matching.Several:
        """Events about an object since the story began, oldest first."""
        about = {"kind": kind, "name": name} | ({"namespace": namespace} if namespace else {})
        found = [
            event
            for event in self._events.values()
            if about.items() <= event["involvedObject"].items()
        ]
        found.sort(
            key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or "")
        )
        return matching.Several(
            tuple({"reason": each.get("reason"), "message": each.get("message")} for each in found)
        )

    async def _follow_nodes(self) -> NoReturn:
        while True:
            async for change in self._api.follow(paths.NODES):
                self._note_node(change)

    async def _follow_pods(self) -> NoReturn:
        while True:
            async for change in self._api.follow(paths.PODS):
                self._note_pod(change)

    async def _follow_events(self) -> NoReturn:
        while True:
            async for change in self._api.follow(EVENTS):
                metadata = change.object["metadata"]
                if self._old.get(change.uid) != metadata["resourceVersion"] and not change.gone:
                    self._events[change.uid] = change.object

    def _note_node(self, change: Change) -> None:
        name = change.object["metadata"]["name"]
        if change.gone:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = change.object

    def _note_pod(self, change: Change) -> None:
        pod = change.object
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        former = self.pods.get(key)
        if former is None or former["metadata"]["uid"] != change.uid:
            self._evicted.discard(key)
        if any(
            EVICTED.items() <= condition.items()
            for condition in pod["status"].get("conditions") or ()
        ):
            self._evicted.add(key)
        if pod["status"].get("reason") == REFUSED:
            self._rejected[change.uid] = pod["spec"].get("nodeName", "")
        if change.gone:
            self.pods.pop(key, None)
        else:
            self.pods[key] = pod
