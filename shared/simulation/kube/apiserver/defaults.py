"""What the server fills in when an object is created.

Called by `rules` on a dict that it may change. Only the defaults that our parts or kubectl read
are here; in particular a node does not get the not-ready taint of the real admission.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable

from shared.simulation.kube.apiserver import kinds, shapes
from shared.simulation.kube.apiserver.encoding import Json
from shared.simulation.kube.apiserver.kinds import Kind

_POD_SPEC: Json = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "serviceAccountName": "default",
    "enableServiceLinks": True,
    "securityContext": {},
    "priority": 0,
    "preemptionPolicy": "PreemptLowerPriority",
}
_CONTAINER: Json = {
    "resources": {},
    "imagePullPolicy": "IfNotPresent",
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_NODE_INFO = (
    "architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion",
    "kubeletVersion", "machineID", "operatingSystem", "osImage", "systemUUID",
)  # fmt: skip


def fill(kind: Kind, data: Json) -> None:
    """Add to a new object what its writer left to the server."""
    if "status" in kind.subresources:
        data.setdefault("status", {})
    if kind in _FILLERS:
        _FILLERS[kind](data)


def _fill_pod(pod: Json) -> None:
    _add(pod.setdefault("spec", {}), _POD_SPEC)
    pod["status"].setdefault("phase", "Pending")
    for container in shapes.containers(pod):
        _add(container, _CONTAINER)
        limits = container["resources"].get("limits") or {}
        if limits:
            _add(container["resources"].setdefault("requests", {}), limits)


def _fill_node(node: Json) -> None:
    node.setdefault("spec", {})
    _add(node["status"].setdefault("nodeInfo", {}), dict.fromkeys(_NODE_INFO, ""))


def _fill_namespace(namespace: Json) -> None:
    namespace["status"].setdefault("phase", "Active")
    labels = namespace["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = namespace["metadata"]["name"]


def _fill_secret(secret: Json) -> None:
    secret.setdefault("type", "Opaque")
    for key, text in (secret.pop("stringData", None) or {}).items():
        secret.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()


def _add(target: Json, values: Json) -> None:
    for key, value in values.items():
        if target.get(key) is None:
            target[key] = copy.copy(value)


_FILLERS: dict[Kind, Callable[[Json], None]] = {
    kinds.POD: _fill_pod,
    kinds.NODE: _fill_node,
    kinds.NAMESPACE: _fill_namespace,
    kinds.SECRET: _fill_secret,
}
