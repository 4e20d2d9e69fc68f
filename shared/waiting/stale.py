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
from shared.contract.waiting import StaleTable, WaitingPod

UNAVAILABLE = re.compile(
    r"requested number of devices unavailable for (\S+)\. Requested: (\d+), Available: (\d+)"
)


@dataclass(frozen=True, slots=True)
class Shortage:
    """What a kubelet says that it was short of."""

    resource: str
    wanted: int
    available: int


def said(table: StaleTable) -> str:
    """Say what is wrong, without the node."""
    noun = "device" if table.devices == 1 else "devices"
    return f"kubelet's table is stale: {table.devices} {noun} held by unknown pods"


def of_node(table: StaleTable) -> str:
    """The same as the end of a sentence about the node."""
    if table.over:
        return "whose kubelet's table was stale; it has started anew since"
    return f"whose {said(table)}"


def cure(table: StaleTable) -> str:
    """Say what to do; empty where it is done."""
    return "" if table.over else f"restart the kubelet on {table.node}"


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
