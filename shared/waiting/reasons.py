"""The closed list of reasons, and what a verdict says of a pod and of each node.

Each reason is said of the whole fleet: that all slots are held is true only where no node has one
that is merely sick, withheld or of another shape. So at most one of them holds, that of the node
that comes nearest to running the pod.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Reason(enum.StrEnum):
    """Why a pod does not run, or that it does."""

    NO_SUCH_RESOURCE = "NoSuchResource"  # no node offers it, or is about to
    ALL_HELD = "AllHeld"  # pods hold what it needs
    UNHEALTHY = "Unhealthy"  # it would run if sick devices were well
    RECONFIGURING = "Reconfiguring"  # a node that is being changed will have it, or had it
    REQUEST_TOO_LARGE = "RequestTooLarge"  # no node will ever have so much at once
    FRAGMENTED = "Fragmented"  # enough is free, but not in one place or not in this shape
    CORDONED_BY_US = "CordonedByUs"  # it is free on a node that slicewire has cordoned for a while
    NOT_REGISTERED = "NotRegistered"  # slots are there, and the kubelet knows nothing of them
    KUBELET_STALE = "KubeletStale"  # the kubelet refuses what is free: its own table is wrong
    NOT_OURS = "NotOurs"  # slots are there for it, or it wants none: something else is in the way
    RUNNING = "Running"


NEAREST = (
    Reason.RUNNING,
    Reason.CORDONED_BY_US,
    Reason.RECONFIGURING,
    Reason.NOT_REGISTERED,
    Reason.KUBELET_STALE,
    Reason.NOT_OURS,
    Reason.UNHEALTHY,
    Reason.FRAGMENTED,
    Reason.ALL_HELD,
    Reason.REQUEST_TOO_LARGE,
    Reason.NO_SUCH_RESOURCE,
)
"""From what passes by itself to what never will: how near a node is to running the pod."""
_DISTANCES = {reason: number for number, reason in enumerate(NEAREST)}


def distance(reason: Reason) -> int:
    """How far from running a pod is for this reason."""
    return _DISTANCES[reason]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one node says of the resource that it is shortest of.

    `held` are slots that somebody has, also those that retire: total = free + held + unhealthy.
    """

    node: str
    reason: Reason
    resource: str = ""
    wanted: int = 0
    total: int = 0
    free: int = 0
    held: int = 0
    unhealthy: int = 0
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A MIG layout of one GPU that would give what is asked for, as `slicewire plan` finds it.

    `layout` is the multiset of the whole GPU; the other lists are `profile at start`.
    """

    node: str
    gpu: int
    model: str
    layout: tuple[tuple[str, int], ...]
    kept: tuple[str, ...] = ()
    destroyed: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    enables: bool = False  # the GPU is not in MIG mode yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A slot that the pod has; `trace` is that of its Allocate call."""

    node: str
    slot: str
    resource: str
    trace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Why a pod does not run: one reason, a sentence, what to do, and each node's part in it."""

    pod: str
    reason: Reason
    sentence: str
    hint: str = ""
    nodes: tuple[Finding, ...] = ()
    proposal: Proposal | None = None
    trace: str = ""  # of the change that it waits for, or that has evicted it
    slots: tuple[Slot, ...] = ()  # that it has, where it runs
