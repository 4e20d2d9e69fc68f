"""Steps that act → what is done to a real cluster, each thing so that it can be put back."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from services.rehearsal import bodies
from services.rehearsal.real.former import Former
from services.rehearsal.real.parts import Parts
from services.rehearsal.stage import StageError
from services.rehearsal.story import (
    Act,
    Budget,
    ConfigMap,
    Cordon,
    Delete,
    Fault,
    Label,
    Manage,
    Owner,
    Pod,
)
from shared.runtime import clock
from shared.simulation.kube import paths
from shared.simulation.kube.api_client import ApiClient, ApiRefusedError

NAMESPACES = "/api/v1/namespaces"
OWNED = "slicewire.io/rehearsal"  # label by which a ReplicaSet knows the pod that a story made
WAITS = ["sh", "-c", 'trap "exit 0" TERM; sleep 2147483647 & wait']
PARTS = {"bus": "nats"}  # where a component of the chart has another name than the service
ACCOUNT_S, LOOK_S = 30.0, 0.2
SIMULATOR = ("slicewire", "simulate", "--socket", "/run/slicewire/gpus.sock")


@dataclass(frozen=True, slots=True)
class Acts:
    """Does what steps say.

    Attributes:
        nodes: those of the story; its pods go to no other.
        image: what the pods of the story run.
    """

    api: ApiClient
    parts: Parts
    former: Former
    nodes: tuple[str, ...]
    image: str

    async def act(self, action: Act) -> None:
        """Do it.

        Raises:
            StageError: it cannot be done; the text is the step's sentence.
        """
        try:
            await self._act(action)
        except ApiRefusedError as refused:
            raise StageError(f"the API server refused it: {refused}") from refused

    async def label(self, node: str, labels: Mapping[str, str | None]) -> None:
        """Set labels of a node; None removes one."""
        await self.former.labels(node, labels)
        await self.api.patch(paths.node(node), {"metadata": {"labels": dict(labels)}})

    async def config_map(self, name: str, data: Mapping[str, str] | None) -> None:
        """Replace all keys of a ConfigMap of the release's namespace; None deletes it."""
        collection = f"{NAMESPACES}/{self.parts.namespace}/configmaps"
        stands = await self.former.config_map(collection, name)
        if data is None:
            await self.api.delete(f"{collection}/{name}", {})
        elif stands is None:
            await self.api.create(collection, {"metadata": {"name": name}, "data": dict(data)})
        else:
            gone = dict.fromkeys(stands.get("data") or {})
            await self.api.patch(f"{collection}/{name}", {"data": gone | dict(data)})

    async def standing(self, names: Iterable[str]) -> list[str]:
        """Which of these ConfigMaps of the release's namespace are there."""
        listed = await self.api.get(f"{NAMESPACES}/{self.parts.namespace}/configmaps")
        return [
            name for name in names if name in {each["metadata"]["name"] for each in listed["items"]}
        ]

    async def _act(self, action: Act) -> None:
        match action:
            case ConfigMap(name=name, data=data):
                await self.config_map(name, data)
            case Label(node=node, labels=labels):
                await self.label(node, labels)
            case Cordon(node=node, unschedulable=unschedulable):
                await self.former.schedulable(node)
                change = {"spec": {"unschedulable": unschedulable or None}}
                await self.api.patch(paths.node(node), change)
            case Pod():
                await self._pod(action)
            case Delete(pod=pod, force=force):
                namespace, _, name = pod.partition("/")
                options = {"gracePeriodSeconds": 0} if force else {}
                await self.api.delete(f"{paths.pods_in(namespace)}/{name}", options)
            case Budget():
                await self._namespace(action.namespace)
                collection = f"/apis/policy/v1/namespaces/{action.namespace}/poddisruptionbudgets"
                await self._create(collection, bodies.budget(action))
            case Fault(node=node, what=what, heal=heal):
                verb = "--heal" if heal else "--fault"
                await self.parts.run("simulator", node, (*SIMULATOR, verb, json.dumps(dict(what))))
            case Manage(service=service, node=node):
                await self.parts.restart(PARTS.get(service.value, service.value), node or "")
            case _:
                raise StageError("this needs the embedded cluster")

    async def _pod(self, step: Pod) -> None:
        await self._namespace(step.namespace)
        body = bodies.pod(step, self.image)
        for container in body["spec"]["containers"]:
            container["command"] = WAITS
        for container in body["spec"].get("initContainers", ()):
            container["command"] = ["true"]
        if step.node is None:
            body["spec"]["affinity"] = _only_on(self.nodes)
        collection = paths.pods_in(step.namespace)
        if step.owner is Owner.NONE:
            body["spec"]["restartPolicy"] = "Never"
            await self._create(collection, body)
            return
        body["metadata"]["labels"][OWNED] = step.name
        await self._create(collection, copy.deepcopy(body))
        sets = f"/apis/apps/v1/namespaces/{step.namespace}/replicasets"
        await self._create(sets, _replica_set(step.name, body))  # which adopts the pod

    async def _create(self, collection: str, body: dict[str, Any]) -> None:
        self.former.made(f"{collection}/{body['metadata']['name']}")
        await self.api.create(collection, body)

    async def _namespace(self, name: str) -> None:
        """Make a namespace when a story first names it, and wait until it takes pods."""
        try:
            await self.api.get(f"{NAMESPACES}/{name}")
        except ApiRefusedError as refused:
            if refused.code != 404:
                raise
            self.former.made(f"{NAMESPACES}/{name}")
            await self.api.create(NAMESPACES, {"metadata": {"name": name}})
            await self._until_account(f"{NAMESPACES}/{name}/serviceaccounts/default")

    async def _until_account(self, path: str) -> None:
        async with asyncio.timeout(ACCOUNT_S):
            while True:
                try:
                    await self.api.get(path)
                except ApiRefusedError:
                    await clock.sleep(LOOK_S)
                else:
                    return


def _only_on(nodes: tuple[str, ...]) -> dict[str, Any]:
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        for node in nodes
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeAffinity": required}


def _replica_set(name: str, pod: Mapping[str, Any]) -> dict[str, Any]:
    labels = {OWNED: name}
    template = {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": pod["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name, "namespace": pod["metadata"]["namespace"]}, "spec": spec}
