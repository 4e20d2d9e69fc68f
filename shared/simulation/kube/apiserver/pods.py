"""What only pods have: binding to a node, and eviction under disruption budgets.

`writes` calls these for the subresources.
"""

from __future__ import annotations

import dataclasses

from shared.simulation.kube.apiserver import budgets, kinds, moments, refusals
from shared.simulation.kube.apiserver.encoding import Json
from shared.simulation.kube.apiserver.objects import Objects
from shared.simulation.kube.apiserver.rules import Deletion
from shared.simulation.kube.apiserver.store import ChangeType, Stored

_PAST_BUDGETS = frozenset({"Pending", "Succeeded", "Failed"})
EVICTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


def bind(objects: Objects, namespace: str, name: str, node: str, now_ns: int) -> Stored:
    """Assign a pod to a node, which need not exist; 409 if it is assigned or being deleted."""
    pod = objects.read(kinds.POD, namespace, name).data()
    assigned = pod["spec"].get("nodeName")
    if assigned:
        why = f'pod {name} is already assigned to node "{assigned}"'
        raise refusals.conflict(kinds.POD, name, why)
    if "deletionTimestamp" in pod["metadata"]:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
        raise refusals.conflict(kinds.POD, name, why)
    pod["spec"]["nodeName"] = node
    scheduled = {"type": "PodScheduled", "status": "True"}
    return _with_condition(objects, pod, scheduled, now_ns)


def _with_condition(objects: Objects, pod: Json, condition: Json, now_ns: int) -> Stored:
    """Write a pod with this condition in place of the one of its type."""
    others = pod["status"].get("conditions", ())
    stamps = {"lastProbeTime": None, "lastTransitionTime": moments.to_time(now_ns)}
    pod["status"]["conditions"] = [
        *(each for each in others if each.get("type") != condition["type"]),
        condition | stamps,
    ]
    key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
    return objects.store.commit(kinds.POD, key, pod, ChangeType.MODIFIED)


def evict(
    objects: Objects,
    namespace: str,
    name: str,
    deletion: Deletion,
    now_ns: int,
    *,
    dry_run: bool = False,
) -> None:
    """Delete a pod if its budget allows it; 429 with cause DisruptionBudget if not.

    A pod that ran says so in a condition until it is gone.
    """
    stored = objects.read(kinds.POD, namespace, name)
    pod = stored.data()
    objects.delete(kinds.POD, namespace, name, deletion, dry_run=True)  # preconditions come first
    if not _passes_budgets(pod):
        _spend(objects, pod, dry_run=dry_run)
        if not dry_run:
            _with_condition(objects, pod, EVICTED, now_ns)
            deletion = dataclasses.replace(deletion, resource_version=None)  # it was, until now
    objects.delete(kinds.POD, namespace, name, deletion, dry_run=dry_run)


def _passes_budgets(pod: Json) -> bool:
    phase = pod["status"].get("phase")
    return phase in _PAST_BUDGETS or "deletionTimestamp" in pod["metadata"]


def _spend(objects: Objects, pod: Json, *, dry_run: bool) -> None:
    """Take one allowed disruption from the pod's budget, as the API server itself does."""
    namespace = pod["metadata"]["namespace"]
    found = budgets.covering(objects.store, namespace, pod["metadata"].get("labels") or {})
    if len(found) > 1:
        text = (
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does"
            " not support."
        )
        raise refusals.Refused(500, text)
    for budget in found:
        if budgets.lets_unready_go(budget, pod):
            return
        budgets.require_allowance(budget)
        if not dry_run:
            status = budget["status"]
            status["disruptionsAllowed"] -= 1
            key = (namespace, budget["metadata"]["name"])
            objects.store.commit(kinds.BUDGET, key, budget, ChangeType.MODIFIED)
