"""Which nodes may start a change now, so that no more than a few change at the same time. Pure.

A node whose change has begun goes on, whatever the limit says now. One that has failed keeps its
place: a layout that does not work stops after `maxUnavailable` nodes, not after the whole fleet.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping


class Stage(enum.Enum):
    """Where a node stands between what is observed on it and what is wanted of it."""

    SETTLED = "settled"
    WAITING = "waiting"  # wants to start
    BEGUN = "begun"
    FAILED = "failed"


def limit(max_unavailable: str, nodes: int) -> int:
    """How many of `nodes` may change at a time: a number, or a percentage, rounded down.

    Never less than one: a limit that lets nobody start would be a change that never comes.
    """
    if max_unavailable.endswith("%"):
        return max(1, nodes * int(max_unavailable[:-1]) // 100)
    return max(1, int(max_unavailable))


def may_start(stages: Mapping[str, Stage], max_unavailable: str) -> frozenset[str]:
    """Names of the nodes that may be disturbed now: those that are, and the next by name."""
    busy = {name for name, stage in stages.items() if stage in {Stage.BEGUN, Stage.FAILED}}
    waiting = sorted(name for name, stage in stages.items() if stage is Stage.WAITING)
    room = max(0, limit(max_unavailable, len(stages)) - len(busy))
    return frozenset(busy | set(waiting[:room]))
