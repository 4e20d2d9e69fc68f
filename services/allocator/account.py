"""State and standing → the ledger message: a row for each slot that somebody has, counts for all.

Pure; `keeper` publishes the result.
"""

from __future__ import annotations

from collections import Counter

from services.allocator.grants import Grant
from services.allocator.ledger import State
from services.allocator.standing import Slot, Standing
from shared.contract.messages import DeviceCounts, Hold, Ledger, LedgerRow, SlotCounts, Stamp


def write(stamp: Stamp, state: State, standing: Standing, held: Hold | None = None) -> Ledger:
    """Say who has what, and which hold is in force. Equal states give equal ledgers."""
    return Ledger(
        stamp=stamp,
        rows=_rows(state, standing),
        counts=_counts(standing),
        held_for=held.stamp.generation if held else None,
        held_order=held.order if held else 0,
    )


def _rows(state: State, standing: Standing) -> tuple[LedgerRow, ...]:
    return tuple(
        _row(slot, state.grants[resource, slot.id])
        for resource, slots in standing.slots.items()
        for slot in slots.values()
        if (resource, slot.id) in state.grants
    )


def _row(slot: Slot, grant: Grant) -> LedgerRow:
    return LedgerRow(
        slot=slot.id,
        resource=slot.resource,
        gpu_uuid=slot.device.gpu_uuid,
        state=slot.state,
        strategy=slot.strategy,
        holder=grant.holder,
        since_ns=grant.at_ns,
        trace=grant.trace,
    )


def _counts(standing: Standing) -> tuple[DeviceCounts, ...]:
    tally: dict[tuple[str, str], Counter[str]] = {}
    for resource, slots in standing.slots.items():
        for slot in slots.values():
            place = tally.setdefault((slot.device.gpu_uuid, resource), Counter())
            place[slot.state.value] += 1
    return tuple(
        DeviceCounts(gpu_uuid=gpu_uuid, resource=resource, counts=SlotCounts(**states))
        for (gpu_uuid, resource), states in tally.items()
    )
