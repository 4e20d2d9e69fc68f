"""Node forms and waiting pods → each resource over the whole fleet, as `status` shows it. Pure.

Requested is what is asked for: what pods have, and what pods wait for. Allocatable is what kubelets
are to count as healthy, so it is what schedulers may hand out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from services.reconfigurer.controller import capacity
from services.views import used
from shared.contract.messages import Inventory, Ledger
from shared.contract.waiting import Waiting, WaitingPod
from shared.sharing import names

PENDING = "Pending"
HAVE = ("held", "granted", "retiring")
SUMMED = ("total", "free", "granted", "held", "retiring", "unhealthy", "lost", "allocatable")


def of_node(
    slots: Mapping[str, Mapping[str, int]],
    ledger: Ledger | None,
    inventory: Inventory | None,
    uses: used.Uses,
) -> dict[str, dict[str, Any]]:
    """Add to the slots of each resource what may be handed out, and the memory in use."""
    allocatable = capacity.expected(ledger, inventory) if ledger else {}
    memory = used.by_resource(inventory, uses)
    return {
        name: {**counts, "allocatable": allocatable.get(name, 0), "used": memory.get(name)}
        for name, counts in slots.items()
    }


def of_fleet(nodes: Iterable[Mapping[str, Any]], waiting: Waiting | None) -> list[dict[str, Any]]:
    """Add up all nodes, and what pending pods ask for of the same names."""
    sums: dict[str, Counter[str]] = {}
    memory: dict[str, Counter[str]] = {}
    for node in nodes:
        for name, counts in node["resources"].items():
            sums.setdefault(name, Counter()).update({key: counts[key] for key in SUMMED})
            memory.setdefault(name, Counter()).update(counts["used"] or {})
    asked = _asked(waiting, sums.keys())
    return [
        _form(name, sums.get(name, Counter()), memory.get(name), asked[name])
        for name in sorted(sums.keys() | asked.keys())
    ]


def pending(waiting: Waiting | None) -> int:
    """How many pods wait to be bound; those beyond the ones that are told of are among them."""
    return sum(1 for _ in _unbound(waiting)) + (waiting.more if waiting else 0)


def _unbound(waiting: Waiting | None) -> Iterator[WaitingPod]:
    """Pods that have nothing yet: bound ones have their slots, or were refused them."""
    pods = waiting.pods if waiting else ()
    return (pod for pod in pods if pod.phase == PENDING and not pod.node)


def _asked(waiting: Waiting | None, served: Iterable[str]) -> Counter[str]:
    """What they ask for of what is served, and of GPUs in forms that nobody serves."""
    ours = frozenset(served)
    asked: Counter[str] = Counter()
    for pod in _unbound(waiting):
        for request in pod.requests:
            if request.resource in ours or request.resource.startswith(names.PREFIX):
                asked[request.resource] += request.count
    return asked


def _form(
    name: str, counts: Mapping[str, int], memory: Mapping[str, int] | None, asked: int
) -> dict[str, Any]:
    have = sum(counts[state] for state in HAVE)
    return {
        "resource": name,
        "requested": have + asked,
        "waiting": asked,
        **{key: counts[key] for key in SUMMED},
        "used": dict(memory) if memory else None,
    }
