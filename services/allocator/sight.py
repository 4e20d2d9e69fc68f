"""Whom does the kubelet count with for a resource: us, another plugin, or nobody? Pure.

The kubelet never says that it has turned to another endpoint: old ones close our stream, newer
ones leave it open and unread. What it counts as allocatable shows it either way.
"""

from __future__ import annotations

import enum
from collections.abc import Set as AbstractSet


class Sight(enum.Enum):
    """Who serves a resource, as the kubelet's allocatable devices show it."""

    OURS = "ours"
    FOREIGN = "foreign"
    NOBODY = "nobody"


def judge(*, streams: int, ours: AbstractSet[str], seen: AbstractSet[str]) -> Sight:
    """Compare what the kubelet counts as allocatable with what we list as healthy.

    Args:
        streams: open ListAndWatch streams of ours.
        ours: ids that we list as healthy.
        seen: ids that the kubelet counts as healthy for the resource.
    """
    if streams and (seen & ours or not (seen or ours)):
        return Sight.OURS
    return Sight.FOREIGN if seen else Sight.NOBODY
