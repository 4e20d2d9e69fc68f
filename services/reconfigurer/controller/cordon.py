"""Cordons with an owner: ours are taken back on every path, an administrator's never. Pure.

Ownership is an annotation, written in the same patch as `spec.unschedulable`, so it outlives the
controller. It ends when somebody else touches the cordon: a look that finds the node schedulable,
or another field manager behind `unschedulable`, lets go of it for good.
"""

from __future__ import annotations

import enum

from services.reconfigurer.controller import snapshot
from services.reconfigurer.controller.snapshot import Patch, Snapshot
from shared.contract import names
from shared.contract.generation import Generation


class Policy(enum.StrEnum):
    """How long a node that changes takes no new pods."""

    BRIEF = "brief"  # until its allocatable devices show the hold
    WHOLE = "whole"  # until the change has ended
    NEVER = "never"


def ours(node: Snapshot) -> bool:
    """Whether the node is cordoned by us, as far as it says."""
    return names.CORDON_ANNOTATION in node.annotations


def take(node: Snapshot, generation: Generation) -> Patch:
    """Cordon the node for a change, unless it is cordoned, by whomever."""
    if node.unschedulable:
        return snapshot.NOTHING
    annotations = {names.CORDON_ANNOTATION: str(generation)}
    return Patch(annotations=annotations, unschedulable=True)


def lift(node: Snapshot, manager: str) -> Patch:
    """Take our cordon back, if it is still ours; `manager` is our name as a field manager."""
    if not ours(node):
        return snapshot.NOTHING
    forget = Patch(annotations={names.CORDON_ANNOTATION: None})
    if not node.unschedulable or _touched(node, manager):
        return forget
    return forget | Patch(unschedulable=False)


def disown(node: Snapshot, manager: str) -> Patch:
    """Let go of a cordon of ours that somebody else has touched; what they did stands."""
    if ours(node) and (not node.unschedulable or _touched(node, manager)):
        return Patch(annotations={names.CORDON_ANNOTATION: None})
    return snapshot.NOTHING


def _touched(node: Snapshot, manager: str) -> bool:
    return node.cordon_manager not in {"", manager}
