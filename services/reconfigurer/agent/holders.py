"""Inventory and ledger → who is in the way on GPUs that are to be cut anew. Pure.

Withheld is everything on such a GPU but the devices that stay, as the allocator sees it too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from shared.contract.messages import Inventory, Ledger, LedgerRow
from shared.domain import slots as slot_ids
from shared.domain.slots import Holder, SlotState
from shared.sharing import expand

NOT_KNOWN_YET = ""  # stands for a pod that has a slot and has no name yet


def by_device(ledger: Ledger) -> Mapping[str, tuple[str, ...]]:
    """Name the pods on each device, by its UUID."""
    found: dict[str, set[str]] = {}
    for row in ledger.rows:
        pod = row.holder.pod_key if row.holder else NOT_KNOWN_YET
        found.setdefault(slot_ids.device_of(row.slot), set()).add(pod)
    return {device: tuple(sorted(pods)) for device, pods in found.items()}


def busy(ledger: Ledger, recut: Collection[str], kept: Collection[str]) -> tuple[LedgerRow, ...]:
    """Return the withheld slots that somebody has; of a lost device nobody can have any."""
    return tuple(
        row
        for row in ledger.rows
        if row.state is not SlotState.LOST and _withheld(row.gpu_uuid, row.slot, recut, kept)
    )


def blockers(rows: Collection[LedgerRow]) -> tuple[Holder, ...]:
    """Name the containers that have slots, each once."""
    return tuple(sorted({row.holder for row in rows if row.holder is not None}))


def withheld(
    inventory: Inventory, ledger: Ledger, recut: Collection[str], kept: Collection[str]
) -> tuple[str, ...]:
    """Name the slots that GPUs offer or still serve beside the devices that stay."""
    held: dict[str, set[str]] = {}
    for row in ledger.rows:
        held.setdefault(row.resource, set()).add(row.slot)
    found = {
        slot
        for offer in expand.expand(inventory.shares, held, ledger.forms)
        for slot in (*offer.slots, *offer.retiring)
        if _withheld(offer.gpu_uuid, slot, recut, kept)
    }
    return tuple(sorted(found, key=slot_ids.slot_order))


def _withheld(gpu: str, slot: str, recut: Collection[str], kept: Collection[str]) -> bool:
    return gpu in recut and slot_ids.device_of(slot) not in kept
