"""Conditions of a node, and the patch that brings those that stand to those that shall. Pure.

Nothing shows conditions to the controller (it follows metadata only), so an annotation written in
the same patch holds a mark of each condition that stands: what is said already is not written, by
this leader or the next.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from services.reconfigurer.controller import notes
from shared.contract import names

Conditions = tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a node; `status` is True, False or Unknown."""

    type: str
    status: str
    reason: str
    message: str

    @property
    def mark(self) -> str:
        """What the annotation holds of it."""
        said = f"{self.reason}\0{self.message}"
        return f"{self.status} {hashlib.sha256(said.encode()).hexdigest()[:12]}"


def patch(annotations: Mapping[str, str], shall: Conditions, now: str) -> list[dict[str, Any]]:
    """Write those that differ from what stands, by its annotation; empty if none does.

    The list is for a strategic merge. A condition without a time keeps the one it has: it has not
    changed sides.
    """
    standing = notes.read(annotations, names.CONDITIONS_ANNOTATION)
    differing = [each for each in shall if standing.get(each.type) != each.mark]
    gone = standing.keys() - {each.type for each in shall}
    return [
        *(_written(each, _side(standing.get(each.type, "")), now) for each in differing),
        *({"type": kind, "$patch": "delete"} for kind in sorted(gone)),
    ]


def marks(shall: Conditions) -> str:
    """The annotation once these stand."""
    return notes.written({each.type: each.mark for each in shall})


def _written(condition: Condition, side: str, now: str) -> dict[str, Any]:
    written = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
    }
    return written if side == condition.status else written | {"lastTransitionTime": now}


def _side(mark: str) -> str:
    return mark.partition(" ")[0]
