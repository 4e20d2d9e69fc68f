"""A kubelet that refuses what the ledger has free: its own table of devices is stale.

After pods were deleted by force a kubelet may go on counting their devices, which neither the API
server nor its own list of pods and devices shows any more. Nobody can read that table, but each
refusal tells how many it believes to be free. Until it is restarted it refuses every later pod.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from shared.contract.facts import Fact, FactKind
from shared.contract.waiting import WaitingPod

UNAVAILABLE = re.compile(
    r"requested number of devices unavailable for (\S+)\. Requested: (\d+), Available: (\d+)"
)


@dataclass(frozen=True, slots=True)
class Shortage:
    """What a kubelet says that it was short of."""

    resource: str
    wanted: int
    available: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleTable:
    """So many devices of a node's resource are held by pods that nobody knows.

    `over` once the kubelet has started anew: it makes its table again from what it finds.
    """

    node: str
    resource: str
    devices: int
    over: bool

    @property
    def sentence(self) -> str:
        """What is wrong, as the end of a sentence about the node."""
        if self.over:
            return "whose kubelet's table was stale; it has started anew since"
        noun = "device" if self.devices == 1 else "devices"
        return f"whose kubelet's table is stale: {self.devices} {noun} held by unknown pods"

    @property
    def cure(self) -> str:
        """What to do; empty where it is done."""
        return "" if self.over else f"restart the kubelet on {self.node}"


def shortage(message: str) -> Shortage | None:
    """Read the words of the kubelet's device manager; None where it said something else."""
    found = UNAVAILABLE.search(message)
    return Shortage(found[1], int(found[2]), int(found[3])) if found else None


def of_pod(pod: WaitingPod, facts: Iterable[Fact]) -> StaleTable | None:
    """Say whether a pod was refused by a stale table; `facts` tell of registrations.

    It was if the ledger had enough free all the time around the refusal.
    """
    short = shortage(pod.message)
    if short is None or pod.free is None or pod.free < short.wanted:
        return None
    anew = any(
        fact.kind is FactKind.REGISTERED
        and (fact.stamp.node, fact.resource) == (pod.node, short.resource)
        and fact.at_ns > pod.failed_ns
        for fact in facts
    )
    return StaleTable(
        node=pod.node, resource=short.resource, devices=pod.free - short.available, over=anew
    )
