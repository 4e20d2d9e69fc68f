"""In which form a device is shared: as it is offered now, and as each holder has come to. Pure.

MPS and time-slicing under one resource name are two forms of it, and a holder keeps the one with
which it began. `ledger` notes it, `standing` offers by it, the MPS service ends daemons by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from services.allocator.grants import Grant, Key
from shared.contract.messages import Inventory
from shared.contract.mps import HeldForm, HeldForms
from shared.domain import slots as slot_ids
from shared.domain.sharing import Share, Strategy

Forms = Mapping[tuple[str, str], Strategy]  # by device UUID and resource


def offered(shares: Iterable[Share]) -> Forms:
    """How each device is shared under the names that it is offered under."""
    return {(share.uuid, share.resource): share.strategy for share in shares}


def as_offered(grant: Grant, shares: Iterable[Share]) -> Strategy | None:
    """How whoever gets this slot now shares its device; None where nothing offers it."""
    device = slot_ids.device_of(grant.slot)
    return next(
        (
            share.strategy
            for share in shares
            if share.uuid == device and share.resource == grant.resource
        ),
        None,
    )


def of_grant(grant: Grant, now: Forms) -> Strategy:
    """How a holder shares its device; where nobody has seen it begin, as the device is offered."""
    device = slot_ids.device_of(grant.slot)
    return grant.strategy or now.get((device, grant.resource), Strategy.NONE)


def known(grants: Mapping[Key, Grant]) -> Mapping[Key, Strategy]:
    """The forms of all grants that were seen when they were handed out."""
    return {key: grant.strategy for key, grant in grants.items() if grant.strategy is not None}


def held(grants: Iterable[Grant], inventory: Inventory) -> HeldForms:
    """Say in which forms the node's GPUs are held, whoever holds them."""
    gpus = {gpu.uuid: gpu.uuid for gpu in inventory.gpus}
    gpus |= {mig.uuid: gpu.uuid for gpu in inventory.gpus for mig in gpu.mig_devices}
    now = offered(inventory.shares)
    found = {
        HeldForm(gpu_uuid=gpus[device], strategy=of_grant(grant, now))
        for grant in grants
        if (device := slot_ids.device_of(grant.slot)) in gpus
    }
    return HeldForms(generation=inventory.stamp.generation, forms=tuple(sorted(found)))
