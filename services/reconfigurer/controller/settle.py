"""When a node's new resolution is applied: at once, later, or not at all. Pure.

A label that flaps must not turn a node's slots over and over. The first change is applied at once;
another one by label within the quiet time waits for its end; a way back to what serves drops what
waits and is never delayed. Edits of the ConfigMap do not wait.
"""

from __future__ import annotations

from dataclasses import dataclass

QUIET_S = 2.0


@dataclass(frozen=True, slots=True)
class Apply:
    """Publish it now."""


@dataclass(frozen=True, slots=True)
class Keep:
    """What serves is what is wanted: nothing to do, nothing to wait for."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again at this time (loop time); the newest wish counts then."""

    until: float


def decide(
    *, same: bool, by_label: bool, last_by_label: float | None, now: float
) -> Apply | Keep | Wait:
    """Decide for one node.

    Args:
        same: what is wanted now equals what serves.
        by_label: the node's labels have changed, not the ConfigMap.
        last_by_label: when the node's last change by label was applied.
        now: the time of the decision, on the same clock.
    """
    if same:
        return Keep()
    if by_label and last_by_label is not None and now < last_by_label + QUIET_S:
        return Wait(last_by_label + QUIET_S)
    return Apply()
