"""Whether a node's allocatable devices are those that the ledger says. Pure.

The kubelet reports only at its own tick, up to 10 s late. Until it has, the scheduler binds pods to
devices that are withheld or gone, and the kubelet would reject them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from shared.contract import mps
from shared.contract.messages import Inventory, Ledger
from shared.domain import slots
from shared.domain.sharing import GPU_RESOURCE
from shared.domain.slots import SlotState
from shared.sharing import expand

NVIDIAS = (GPU_RESOURCE, f"{GPU_RESOURCE}.shared")
MIG_PREFIX = "nvidia.com/mig-"
LISTED = (SlotState.HELD, SlotState.GRANTED)
TAKEN = (*LISTED, SlotState.RETIRING)


def expected(
    ledger: Ledger, inventory: Inventory | None = None, withheld: frozenset[str] = frozenset()
) -> dict[str, int]:
    """Devices that the kubelet is to call healthy, by resource.

    Free, granted and held slots, but for those with a holder whose device is sick, whose MPS daemon
    is down or that a hold withholds: they are listed as unhealthy.
    """
    found: Counter[str] = Counter()
    for each in ledger.counts:
        counts = each.counts
        found[each.resource] += counts.free + counts.granted + counts.held
    sick = _sick(inventory)
    daemons = {daemon.gpu_uuid: daemon for daemon in inventory.mps} if inventory else {}
    for row in ledger.rows:
        device = {row.gpu_uuid, slots.device_of(row.slot)}
        closed = inventory is not None and mps.closed(daemons.get(row.gpu_uuid), row.strategy)
        if row.state in LISTED and (row.slot in withheld or device & sick or closed):
            found[row.resource] -= 1
    return dict(found)


def answers(ledger: Ledger, inventory: Inventory) -> bool:
    """Whether the ledger's slots are those of this inventory and not of an older one."""
    holders: dict[str, frozenset[str]] = {}
    for row in ledger.rows:
        if row.state in TAKEN:
            holders[row.resource] = holders.get(row.resource, frozenset()) | {row.slot}
    offered: Counter[tuple[str, str]] = Counter()
    for offer in expand.expand(inventory.shares, holders, ledger.forms):
        offered[offer.gpu_uuid, offer.resource] += len(offer.slots)
    standing: Counter[tuple[str, str]] = Counter()
    for each in ledger.counts:
        standing[each.gpu_uuid, each.resource] += each.counts.total - each.counts.retiring
    return +offered == +standing


def differing(allocatable: Mapping[str, int], wanted: Mapping[str, int]) -> str:
    """Say how what the node reports differs from what it is to have; empty if it does not."""
    leftover = {name for name in allocatable if name in NVIDIAS or name.startswith(MIG_PREFIX)}
    return ", ".join(
        f"{name}: {allocatable.get(name, 0)} instead of {wanted.get(name, 0)}"
        for name in sorted(wanted.keys() | leftover)
        if allocatable.get(name, 0) != wanted.get(name, 0)
    )


def shows_hold(allocatable: Mapping[str, int], wanted: Mapping[str, int]) -> bool:
    """Whether the scheduler sees no more devices than there are while a hold stands."""
    return all(allocatable.get(name, 0) <= count for name, count in wanted.items())


def served(ledger: Ledger | None, inventory: Inventory | None) -> frozenset[str]:
    """Names of all resources that the node serves now."""
    listed = {share.resource for share in inventory.shares} if inventory else set()
    counted = {each.resource for each in ledger.counts} if ledger else set()
    held = {row.resource for row in ledger.rows} if ledger else set()
    return frozenset(listed | counted | held)


def _sick(inventory: Inventory | None) -> set[str]:
    gpus = inventory.gpus if inventory else ()
    sick = {gpu.uuid for gpu in gpus if not gpu.health.usable}
    return sick | {mig.uuid for gpu in gpus for mig in gpu.mig_devices if not mig.health.usable}
