"""Ledgers and inventories → who holds which slot, in the form of `slicewire who -o json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from shared.contract.messages import Inventory, Ledger, LedgerRow
from shared.domain.slots import SlotState, device_of, slot_order
from shared.runtime import clock

HOLDING = (SlotState.HELD, SlotState.RETIRING, SlotState.GRANTED, SlotState.LOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderRow:
    """One slot that somebody holds.

    `gpu` is its index, None while the inventory is unknown; `pod` is None for a slot that was
    granted and whose pod the kubelet has not named yet.
    """

    node: str
    gpu: int | None
    uuid: str
    slot: str
    resource: str
    pod: str | None
    container: str | None
    since: str | None
    trace: str

    def form(self) -> dict[str, Any]:
        """The row as JSON has it."""
        return asdict(self)


def rows(
    ledgers: Mapping[str, Ledger], inventories: Mapping[str, Inventory]
) -> tuple[HolderRow, ...]:
    """List the holders of all nodes: by node, GPU, slot."""
    found = [
        _row(node, row, _indexes(inventories.get(node)))
        for node, ledger in sorted(ledgers.items())
        for row in ledger.rows
        if row.state in HOLDING
    ]
    return tuple(sorted(found, key=_order))


def gpus_of_devices(inventories: Mapping[str, Inventory]) -> dict[str, str]:
    """The GPU of every device: a GPU's own UUID, and those of its MIG devices."""
    return {
        uuid: gpu.uuid
        for inventory in inventories.values()
        for gpu in inventory.gpus
        for uuid in (gpu.uuid, *(device.uuid for device in gpu.mig_devices))
    }


def of_gpu(found: Iterable[HolderRow], uuid: str, gpus: Mapping[str, str]) -> list[HolderRow]:
    """Rows on a MIG device, or on a GPU with all its devices; `gpus` as `gpus_of_devices` says."""
    return [row for row in found if uuid in (row.uuid, gpus.get(row.uuid))]


def _order(row: HolderRow) -> tuple[str, int, str, tuple[str, int, str]]:
    return row.node, -1 if row.gpu is None else row.gpu, row.resource, slot_order(row.slot)


def _indexes(inventory: Inventory | None) -> dict[str, int]:
    return {gpu.uuid: gpu.index for gpu in inventory.gpus} if inventory else {}


def _row(node: str, row: LedgerRow, indexes: Mapping[str, int]) -> HolderRow:
    return HolderRow(
        node=node,
        gpu=indexes.get(row.gpu_uuid),
        uuid=device_of(row.slot),
        slot=row.slot,
        resource=row.resource,
        pod=row.holder.pod_key if row.holder else None,
        container=row.holder.container if row.holder else None,
        since=clock.utc(row.since_ns) if row.since_ns else None,
        trace=row.trace,
    )
