"""Steps that act → what is done to the embedded cluster."""

from __future__ import annotations

import uuid
from typing import Any

from services.rehearsal import bodies
from services.rehearsal.embedded import gpu_processes
from services.rehearsal.embedded.cluster import NAMESPACE, Cluster
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
    Reboot,
    Service,
    Verb,
)
from shared.simulation.broker import Broker, BrokerError
from shared.simulation.gpu.faults import FaultError
from shared.simulation.kube.apiserver import ApiServer, kinds, patches, refusals
from shared.simulation.kube.apiserver.rules import Deletion
from shared.simulation.kube.kubelet.kubelet import FakeKubelet

IMAGE = "example.com/pause:1"


async def act(cluster: Cluster, action: Act) -> None:
    """Do what a step says.

    Raises:
        StageError: it cannot be done; the text is the step's sentence.
    """
    try:
        await _act(cluster, action)
    except refusals.Refused as refused:
        raise StageError(f"the API server refused it: {refused.message}") from refused
    except (FaultError, BrokerError, OSError) as error:
        raise StageError(str(error)) from error


async def _act(cluster: Cluster, action: Act) -> None:
    objects = cluster.api.objects
    match action:
        case ConfigMap():
            _config_map(cluster, action)
        case Label(node=node, labels=labels):
            _patch_node(cluster, node, {"metadata": {"labels": dict(labels)}})
        case Cordon(node=node, unschedulable=unschedulable):
            _patch_node(cluster, node, {"spec": {"unschedulable": unschedulable or None}})
        case Pod():
            _ensure_namespace(cluster, action.namespace)
            objects.create(kinds.POD, action.namespace, _pod(action))
        case Delete(pod=pod, force=force):
            namespace, _, name = pod.partition("/")
            deletion = Deletion(grace_seconds=0) if force else Deletion()
            objects.delete(kinds.POD, namespace, name, deletion)
        case Budget():
            _ensure_namespace(cluster, action.namespace)
            objects.create(kinds.BUDGET, action.namespace, bodies.budget(action))
        case Reboot(node=node):
            await cluster.nodes[node].reboot()
        case Fault(node=node, what=what, heal=heal):
            hardware = cluster.nodes[node].hardware
            await (hardware.heal(what) if heal else hardware.fault(what))
        case Manage():
            await _manage(cluster, action)


def _ensure_namespace(cluster: Cluster, name: str) -> None:
    """Make a namespace when a story first names it."""
    if cluster.api.store.get("namespaces", "", name) is None:
        cluster.api.objects.create(kinds.NAMESPACE, "", {"metadata": {"name": name}})


def _pod(step: Pod) -> dict[str, Any]:
    """The pod object of a step, with what the stand-ins are to know of it."""
    body = bodies.pod(step, IMAGE)
    if step.uses is not None:
        body["metadata"]["annotations"] = gpu_processes.written(step.uses)
    body["metadata"] |= _owned(step)
    return body


def _owned(pod: Pod) -> dict[str, Any]:
    """The reference to the owner, which has the pod's own name and exists only in it."""
    if pod.owner is Owner.NONE:
        return {}
    owner = {
        "apiVersion": "apps/v1",
        "kind": pod.owner.value,
        "name": pod.name,
        "uid": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{pod.namespace}/{pod.owner}/{pod.name}")),
        "controller": True,
    }
    return {"ownerReferences": [owner]}


def _config_map(cluster: Cluster, action: ConfigMap) -> None:
    objects, kind = cluster.api.objects, kinds.CONFIG_MAP
    if action.data is None:
        objects.delete(kind, NAMESPACE, action.name)
        return
    body = {"metadata": {"name": action.name}, "data": dict(action.data)}
    if cluster.api.store.get("configmaps", NAMESPACE, action.name) is None:
        objects.create(kind, NAMESPACE, body)
    else:
        objects.replace(kind, NAMESPACE, action.name, body)


def _patch_node(cluster: Cluster, node: str, change: dict[str, Any]) -> None:
    cluster.api.objects.patch(kinds.NODE, "", node, patches.read(patches.MERGE, change))


async def _manage(cluster: Cluster, action: Manage) -> None:
    match action.service:
        case Service.BUS:
            await _manage_bus(cluster.broker, action.verb)
        case Service.APISERVER:
            await _manage_api(cluster.api, action.verb)
        case Service.KUBELET if action.node is not None:
            await _manage_kubelet(cluster.nodes[action.node].kubelet, action.verb)
        case service:
            process = cluster.process(service, action.node)
            if action.verb is Verb.KILL:
                await process.kill()
            elif action.verb is not Verb.START:
                await process.stop()
            if action.verb in (Verb.START, Verb.RESTART):
                await process.start()


async def _manage_bus(broker: Broker, verb: Verb) -> None:
    match verb:
        case Verb.START:
            await broker.start()
        case Verb.STOP:
            await broker.stop()
        case Verb.KILL:
            await broker.kill()
        case Verb.RESTART:
            await broker.restart(lose_store=False)


async def _manage_api(api: ApiServer, verb: Verb) -> None:
    if verb is not Verb.START:
        await api.stop()
    if verb in (Verb.START, Verb.RESTART):
        await api.start()


async def _manage_kubelet(kubelet: FakeKubelet, verb: Verb) -> None:
    match verb:
        case Verb.START:
            await kubelet.start()
        case Verb.STOP:
            await kubelet.stop()
        case Verb.KILL:
            await kubelet.kill()
        case Verb.RESTART:
            await kubelet.restart()
