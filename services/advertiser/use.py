"""Samples of devices + owners of processes + the ledger → what is taken, and by whom. Pure.

A process counts for its pod where that holds a slot of the device, or of the GPU around it. Any
other is unaccounted: it is never put down to somebody who holds a slot. `sampling` calls it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from services.advertiser.owners import Owner
from shared.contract.messages import Ledger, LedgerRow
from shared.contract.usage import DeviceUse, PodUse, Usage
from shared.domain import slots
from shared.domain.slots import Holder
from shared.nvml.port import ProcessUse, Sample

MPS_SERVER = "nvidia-cuda-mps-server"  # serves the holders of slots, and is none of them
MOST_NAMED = 8  # of those that are unaccounted; the others only count
WHOLE = 100  # percent
STEP_MIB = 64
STEP_PERCENT = 10

Owners = Mapping[int, Owner]  # by pid


def devices(
    samples: Iterable[Sample], owners: Owners | None, ledger: Ledger | None
) -> tuple[DeviceUse, ...]:
    """Say what is taken of each device; `owners` is None where processes cannot be seen.

    Without a ledger nobody can be told to hold no slot: then pods are all taken for holders.
    """
    return tuple(_device(each, owners, ledger) for each in samples)


def differ(before: Usage | None, after: Usage) -> bool:
    """Whether two usages differ by more than the noise of a working GPU."""
    if before is None or before.blind != after.blind or len(before.devices) != len(after.devices):
        return True
    pairs = zip(before.devices, after.devices, strict=True)
    return any(_device_differs(former, now) for former, now in pairs)


def _device(sample: Sample, owners: Owners | None, ledger: Ledger | None) -> DeviceUse:
    seen = [(each, owners[each.pid]) for each in sample.processes if owners and each.pid in owners]
    theirs, strangers = _sorted_out(_without_server(seen), _rows(sample, ledger))
    return DeviceUse(
        uuid=sample.uuid,
        gpu_uuid=sample.gpu_uuid,
        memory_mib=sample.memory_mib,
        used_mib=sample.used_mib,
        sm_percent=sample.sm_percent,
        pods=tuple(_pod(holder, theirs[holder]) for holder in sorted(theirs)),
        unaccounted=tuple(sorted({str(owner) for _, owner in strangers})[:MOST_NAMED]),
        unaccounted_processes=len(strangers),
        unaccounted_mib=sum(process.memory_mib or 0 for process, _ in strangers),
    )


Seen = Sequence[tuple[ProcessUse, Owner]]


def _without_server(seen: Seen) -> Seen:
    """Leave the server of MPS out. Where it is said to compute, it does so for its clients.

    What each of them had of the time is then not known, and no rest.
    """
    clients = [(process, owner) for process, owner in seen if owner.program != MPS_SERVER]
    if not any(process.sm_percent for process, owner in seen if owner.program == MPS_SERVER):
        return clients
    return [
        (dataclasses.replace(process, sm_percent=process.sm_percent or None), owner)
        for process, owner in clients
    ]


def _sorted_out(
    seen: Seen, rows: Sequence[LedgerRow] | None
) -> tuple[dict[Holder, list[ProcessUse]], list[tuple[ProcessUse, Owner]]]:
    """Tell holders' processes from the others.

    While it is not known yet who got a slot, a pod without one may be the one: it is left out.
    """
    pods = {row.holder.pod_key for row in rows or () if row.holder}
    unresolved = any(row.holder is None for row in rows or ())
    theirs: dict[Holder, list[ProcessUse]] = {}
    strangers = []
    for process, owner in seen:
        if owner.holder and (rows is None or owner.holder.pod_key in pods):
            theirs.setdefault(owner.holder, []).append(process)
        elif not (owner.holder and unresolved):
            strangers.append((process, owner))
    return theirs, strangers


def _rows(sample: Sample, ledger: Ledger | None) -> list[LedgerRow] | None:
    """The slots of a device, and those of the whole GPU that it is a part of."""
    if ledger is None:
        return None
    places = {sample.uuid, sample.gpu_uuid}
    return [row for row in ledger.rows if slots.device_of(row.slot) in places]


def _pod(holder: Holder, processes: Sequence[ProcessUse]) -> PodUse:
    percent = _sum(each.sm_percent for each in processes)
    return PodUse(
        holder=holder,
        memory_mib=_sum(each.memory_mib for each in processes),
        sm_percent=None if percent is None else min(percent, WHOLE),
    )


def _sum(values: Iterable[int | None]) -> int | None:
    """Add up what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _device_differs(before: DeviceUse, now: DeviceUse) -> bool:
    if _who(before) != _who(now):
        return True
    pods = list(zip(before.pods, now.pods, strict=True))
    memory = [(former.memory_mib, each.memory_mib) for former, each in pods]
    percent = [(former.sm_percent, each.sm_percent) for former, each in pods]
    memory += [(before.used_mib, now.used_mib), (before.unaccounted_mib, now.unaccounted_mib)]
    percent.append((before.sm_percent, now.sm_percent))
    return _apart(memory, STEP_MIB) or _apart(percent, STEP_PERCENT)


def _who(device: DeviceUse) -> object:
    holders = [each.holder for each in device.pods]
    return device.uuid, holders, device.unaccounted, device.unaccounted_processes


def _apart(pairs: Iterable[tuple[int | None, int | None]], step: int) -> bool:
    return any(
        former != now and (former is None or now is None or abs(former - now) >= step)
        for former, now in pairs
    )
