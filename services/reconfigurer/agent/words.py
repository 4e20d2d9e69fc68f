"""Plans and states in words, for progress, steps, logs and spans. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from services.reconfigurer.agent import steps
from services.reconfigurer.agent.plan import Goal, GpuPlan
from services.reconfigurer.agent.sight import GpuSight
from shared.contract.messages import LedgerRow
from shared.geometry import board as boards
from shared.geometry.config import Wanted

_SHOWN = 8


def listed(names: Iterable[str]) -> str:
    """List some names, and say how many more there are."""
    every = list(dict.fromkeys(names))
    more = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    return ", ".join(every[:_SHOWN]) + more


def layout(wanted: Wanted) -> str:
    """Say what a GPU is or is to be."""
    if not wanted.enabled:
        return "MIG off"
    return boards.words(dict(wanted.counts)) if wanted.counts else "MIG on, no instance"


def goal(wanted: Goal, seen: Iterable[GpuSight]) -> str:
    """Say what GPUs are to be, equal ones together."""
    indexes: dict[str, list[str]] = {}
    of = dict(wanted)
    for each in seen:
        if each.uuid in of:
            indexes.setdefault(layout(of[each.uuid]), []).append(str(each.gpu.index))
    return "; ".join(f"GPU {', '.join(found)}: {words}" for words, found in indexes.items())


def plan(found: GpuPlan) -> str:
    """Say what is to be done to a GPU."""
    return f"{found}: {listed(map(str, steps.of(found))) or 'nothing to do'}"


def held(rows: Iterable[LedgerRow]) -> str:
    """Say who has withheld slots."""
    people = [row.holder.pod_key if row.holder else "a pod that is not known yet" for row in rows]
    return listed(people)
