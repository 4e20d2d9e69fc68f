"""Where a pod fits: the scheduler's decision as a pure function, with the real one's sentences."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from shared.simulation.kube.kubelet import containers

Object = Mapping[str, Any]

TERMINAL: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Placement:
    """A node to bind to, or why there is none."""

    node: str | None
    message: str = ""


def place(pod: Object, nodes: Iterable[Object], pods: Iterable[Object]) -> Placement:
    """Choose the fitting node with the fewest pods; `pods` are all the cluster's."""
    bound = _by_node(pods)
    fitting: list[tuple[int, str]] = []
    reasons: collections.Counter[str] = collections.Counter()
    total = 0
    for node in nodes:
        total += 1
        name = node["metadata"]["name"]
        obstacles = _obstacles(pod, node, bound.get(name, []))
        reasons.update(obstacles)
        if not obstacles:
            fitting.append((len(bound.get(name, [])), name))
    if fitting:
        return Placement(min(fitting)[1])
    counted = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    detail = f": {counted}" if counted else ""
    return Placement(None, f"0/{total} nodes are available{detail}.")


def is_terminal(pod: Object) -> bool:
    """Whether a pod has ended and so takes nothing."""
    return pod.get("status", {}).get("phase") in TERMINAL


def _by_node(pods: Iterable[Object]) -> dict[str, list[Object]]:
    bound: dict[str, list[Object]] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node and not is_terminal(pod):
            bound.setdefault(node, []).append(pod)
    return bound


def _obstacles(pod: Object, node: Object, there: list[Object]) -> list[str]:
    """Say what keeps a pod off a node, as far as the first filter that refuses."""
    spec = node.get("spec", {})
    if spec.get("unschedulable") and not _tolerates(pod, _CORDONED):
        return ["node(s) were unschedulable"]
    for taint in spec.get("taints", ()):
        if taint["effect"] != "PreferNoSchedule" and not _tolerates(pod, taint):
            return ["node(s) had untolerated taint(s)"]
    labels = node["metadata"].get("labels", {})
    wanted = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return ["node(s) didn't match Pod's node affinity/selector"]
    return [f"Insufficient {name}" for name in _lacking(pod, node, there)]


_CORDONED: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def _tolerates(pod: Object, taint: Object) -> bool:
    for toleration in pod["spec"].get("tolerations", ()):
        same_key = toleration.get("key") in (None, "", taint["key"])
        same_effect = toleration.get("effect") in (None, "", taint["effect"])
        exists = toleration.get("operator", "Equal") == "Exists"
        same_value = exists or toleration.get("value", "") == taint.get("value", "")
        if same_key and same_effect and same_value:
            return True
    return False


def _lacking(pod: Object, node: Object, there: list[Object]) -> list[str]:
    """Name the extended resources of which the node has too few left."""
    allocatable = node.get("status", {}).get("allocatable", {})
    taken: collections.Counter[str] = collections.Counter()
    for other in there:
        taken.update(containers.requests(other))
    return [
        name
        for name, amount in containers.requests(pod).items()
        if int(allocatable.get(name, 0)) - taken[name] < amount
    ]
