"""The ledger → samples: slots by state, and who holds which. Pure; `app` shows it to the meters."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator

from shared.contract.messages import Ledger, LedgerRow
from shared.domain import slots
from shared.domain.slots import Holder
from shared.telemetry import catalogue
from shared.telemetry.catalogue import Sample

MOST_SLOTS = 64  # of one container, device and resource that get a series each


def samples(ledger: Ledger | None) -> Iterator[Sample]:
    """Say what the ledger says; nothing where there is none yet."""
    if ledger is None:
        return
    for device in ledger.counts:
        for state, count in dataclasses.asdict(device.counts).items():
            yield catalogue.SLOTS.at(
                count, resource=device.resource, uuid=device.gpu_uuid, state=state
            )
    yield from _holders(ledger)


def _holders(ledger: Ledger) -> Iterator[Sample]:
    """One series a held slot; where a container has very many of a device, one for all of them."""
    held: dict[tuple[Holder, str, str, str], list[str]] = defaultdict(list)
    for row in ledger.rows:
        if row.holder is not None:
            device = slots.device_of(row.slot)
            held[row.holder, device, _parent(row, device), row.resource].append(row.slot)
    for (holder, device, parent, resource), ids in held.items():
        for slot in ids if len(ids) <= MOST_SLOTS else [""]:
            yield catalogue.HOLDER.at(
                1,
                namespace=holder.namespace,
                pod=holder.pod,
                container=holder.container,
                uuid=device,
                parent=parent,
                slot=slot,
                resource=resource,
            )


def _parent(row: LedgerRow, device: str) -> str:
    """The GPU; an instance that is gone is known by no GPU, but its old name may say it."""
    legacy = slots.legacy_instance(device)
    return legacy[0] if legacy and row.gpu_uuid == device else row.gpu_uuid
