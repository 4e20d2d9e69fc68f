"""Pods and PodDisruptionBudgets to the status of the budgets: the disruption controller's part.

`Budgets` hears of every write and computes at once, or after a delay: the real controller is
late, and until it has seen a new or changed budget the API server refuses evictions under it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from shared.simulation.kube.apiserver import kinds, refusals, selectors
from shared.simulation.kube.apiserver.encoding import Json
from shared.simulation.kube.apiserver.kinds import Kind
from shared.simulation.kube.apiserver.store import Change, ChangeType, Key, Store


def covering(store: Store, namespace: str, labels: Mapping[str, str]) -> list[Json]:
    """Return the budgets of a namespace that select a pod with these labels."""
    found = store.list(kinds.BUDGET.plural, namespace)
    return [budget for budget in found if selects(budget, labels)]


def selects(budget: Json, labels: Mapping[str, str]) -> bool:
    """Say whether a budget covers pods with these labels; without a selector it covers none."""
    selector = (budget.get("spec") or {}).get("selector")
    if selector is None:
        return False
    return all(each.holds(labels) for each in selectors.from_label_selector(selector))


def status_of(budget: Json, pods: list[Json]) -> Json:
    """Return the status of a budget over the pods it covers."""
    spec = budget.get("spec") or {}
    healthy = sum(1 for pod in pods if _is_healthy(pod))
    if "minAvailable" in spec:
        wanted = _count(spec["minAvailable"], len(pods))
    else:
        wanted = max(0, len(pods) - _count(spec.get("maxUnavailable", 1), len(pods)))
    return {
        "observedGeneration": budget["metadata"]["generation"],
        "expectedPods": len(pods),
        "currentHealthy": healthy,
        "desiredHealthy": wanted,
        "disruptionsAllowed": max(0, healthy - wanted) if pods else 0,
    }


def _count(value: int | str, whole: int) -> int:
    if isinstance(value, str):
        return -(-whole * int(value.removesuffix("%")) // 100)  # rounded up, as the real one does
    return value


def _is_healthy(pod: Json) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and is_ready(pod)


def is_ready(pod: Json) -> bool:
    """Say whether a pod's Ready condition is True."""
    conditions = pod["status"].get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def lets_unready_go(budget: Json, pod: Json) -> bool:
    """Say whether a pod that is not ready may be evicted without touching the budget."""
    if is_ready(pod):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    wanted = status.get("desiredHealthy", 0)
    return wanted > 0 and bool(status.get("currentHealthy", 0) >= wanted)


def require_allowance(budget: Json) -> None:
    """Refuse with 429 if the budget has not been processed yet or allows no disruption."""
    name, status = budget["metadata"]["name"], budget.get("status") or {}
    if status.get("observedGeneration", 0) < budget["metadata"]["generation"]:
        raise refusals.over_budget(
            f"The disruption budget {name} is still being processed by the server.", retry_after=10
        )
    if status["disruptionsAllowed"] < 1:
        wanted, healthy = status["desiredHealthy"], status["currentHealthy"]
        raise refusals.over_budget(
            f"The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
        )


class Budgets:
    """Keeps the status of all budgets, `delay` seconds behind the writes that change it."""

    def __init__(self, store: Store, delay: float) -> None:
        self._store = store
        self._delay = delay
        self._due: dict[Key, asyncio.TimerHandle] = {}
        store.observers.append(self._see)

    def _see(self, kind: Kind, key: Key, change: Change) -> None:
        if kind is kinds.BUDGET and change.type is not ChangeType.DELETED:
            self._plan(key)
        elif kind is kinds.POD:
            for budget_key, _ in self._store.rows(kinds.BUDGET):
                if budget_key[0] == key[0]:
                    self._plan(budget_key)

    def _plan(self, key: Key) -> None:
        if not self._delay:
            self._process(key)
        elif key not in self._due:
            loop = asyncio.get_running_loop()
            self._due[key] = loop.call_later(self._delay, self._process, key)

    def _process(self, key: Key) -> None:
        self._due.pop(key, None)
        stored = self._store.find(kinds.BUDGET, key)
        if stored is None:
            return
        budget = stored.data()
        pods = self._store.list(kinds.POD.plural, key[0])
        covered = [pod for pod in pods if selects(budget, pod["metadata"].get("labels") or {})]
        status = status_of(budget, covered)
        if status != budget.get("status"):
            self._store.commit(kinds.BUDGET, key, budget | {"status": status}, ChangeType.MODIFIED)

    def settle(self) -> None:
        """Compute at once what is due later, so that no timer outlives the server."""
        for key, timer in list(self._due.items()):
            timer.cancel()
            self._process(key)
