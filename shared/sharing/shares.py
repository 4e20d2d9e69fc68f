"""A config applied to the GPUs of a node: which device offers how many slots under which name.

The advertiser calls it for every inventory, `slicewire plan` for catalogue GPUs. Health plays no
part: a sick GPU keeps its shares, its slots are withheld elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from shared.domain.errors import Place, Problem
from shared.domain.gpu import Gpu
from shared.domain.sharing import Share, SharedResource, SharingConfig, Strategy
from shared.sharing import entries, hardware, mps, suggest
from shared.sharing.findings import Findings

_SECTIONS = {Strategy.TIME_SLICING: "sharing.timeSlicing", Strategy.MPS: "sharing.mps"}


@dataclass(frozen=True, slots=True)
class Shared:
    """Shares in device order, one a device, and what the writer of the text should know."""

    shares: tuple[Share, ...]
    warnings: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class _Row:
    """An entry with its path in the text."""

    path: str
    entry: SharedResource


def shares(gpus: tuple[Gpu, ...], config: SharingConfig) -> Shared:
    """Apply a config to GPUs.

    Raises:
        RefusedError: an entry names a device that is not there or that another entry has, a
            resource would have more ids than the kubelet takes, or MPS cannot do it.
    """
    found = hardware.devices(gpus, config.mig_strategy)
    if found.conflict:
        return _nothing(found, config)
    findings = Findings()
    for remark in found.remarks:
        findings.warn(Place(), "", remark)
    rows = _rows(config)
    covered = _covered(found.devices, rows, findings)
    if config.strategy is Strategy.MPS:
        _check_mps(found.devices, covered, findings)
    made = tuple(_share(device, _entry(device, covered), config) for device in found.devices)
    _check_ids(made, covered, findings)
    findings.settle()
    return Shared(made, tuple(findings.warnings))


def _nothing(found: hardware.Devices, config: SharingConfig) -> Shared:
    """Give every device zero replicas: nothing is offered, and holders stay known until they go."""
    warning = Problem("flags.migStrategy", 0, 0, f"{found.conflict}; nothing is advertised")
    none = (SharedResource(name=device.resource, replicas=0) for device in found.devices)
    pairs = zip(found.devices, none, strict=True)
    return Shared(tuple(_share(device, entry, config) for device, entry in pairs), (warning,))


def _rows(config: SharingConfig) -> tuple[_Row, ...]:
    section = _SECTIONS.get(config.strategy, "sharing")
    return tuple(
        _Row(f"{section}.resources[{index}]", entry) for index, entry in enumerate(config.resources)
    )


def _covered(
    devices: tuple[hardware.Device, ...], rows: tuple[_Row, ...], findings: Findings
) -> dict[str, _Row]:
    """Return which entry each device falls under, by UUID; a device falls under one at most."""
    covered: dict[str, _Row] = {}
    for row in rows:
        mine = tuple(device for device in devices if device.resource == row.entry.name)
        if not mine:
            present = suggest.listed(sorted({device.resource for device in devices}))
            message = f"no device of the node is a {row.entry.name}, it has {present}: no effect"
            findings.warn(row.entry.place, row.path, message)
            continue
        for device, place, path in _chosen(mine, row, findings):
            first = covered.setdefault(device.uuid, row)
            if first is not row:
                message = f"device {device.ref} ({device.uuid}) is covered by {first.path} already"
                findings.add(place, path, message, "a device may stand in one entry")
    return covered


def _chosen(
    mine: tuple[hardware.Device, ...], row: _Row, findings: Findings
) -> Iterator[tuple[hardware.Device, Place, str]]:
    """Give the devices that an entry names, each with the place of its name."""
    if row.entry.devices is None:
        yield from ((device, row.entry.place, row.path) for device in mine)
        return
    by_name = {name: device for device in mine for name in (device.ref, device.uuid)}
    named: dict[str, str] = {}
    for index, ref in enumerate(row.entry.devices):
        places = row.entry.device_places
        place = places[index] if index < len(places) else row.entry.place
        path = f"{row.path}.devices[{index}]"
        device = by_name.get(ref)
        if device is None:
            present = suggest.listed(device.ref for device in mine)
            message = f"the node has no {row.entry.name} {ref}, it has {present}"
            findings.add(place, path, message)
        elif device.uuid in named:
            message = f"{ref} and {named[device.uuid]} are one device"
            findings.add(place, path, message, "keep one of the two")
        else:
            named[device.uuid] = ref
            yield device, place, path


def _entry(device: hardware.Device, covered: dict[str, _Row]) -> SharedResource:
    row = covered.get(device.uuid)
    return SharedResource(name=device.resource, replicas=1) if row is None else row.entry


def _share(device: hardware.Device, entry: SharedResource, config: SharingConfig) -> Share:
    shared = entry.replicas > 1
    return Share(
        uuid=device.uuid,
        gpu_uuid=device.gpu.uuid,
        gpu_index=device.gpu.index,
        resource=entry.rename or entry.name,
        replicas=entry.replicas,
        strategy=config.strategy if shared else Strategy.NONE,
        renamed=entry.rename is not None,
        fail_requests_greater_than_one=shared and config.fail_requests_greater_than_one,
        policy=config.allocation_policy,
        parts=device.parts,
    )


def _check_mps(
    devices: tuple[hardware.Device, ...], covered: dict[str, _Row], findings: Findings
) -> None:
    """Refuse what no MPS daemon could serve; GPUs of one kind are told once an entry."""
    told: set[tuple[str, str, bool]] = set()
    for device in devices:
        row, gpu = covered.get(device.uuid), device.gpu
        if row is None or row.entry.replicas == 1:
            continue
        kind = (row.path, gpu.model, gpu.mig_enabled)
        if kind not in told:
            told.add(kind)
            places = (row.entry.place, row.entry.replicas_place)
            mps.check(gpu, row.path, row.entry.replicas, places, findings)


def _check_ids(made: tuple[Share, ...], covered: dict[str, _Row], findings: Findings) -> None:
    """Refuse a resource with more ids than one message to the kubelet can hold."""
    for resource in dict.fromkeys(share.resource for share in made):
        own = [share for share in made if share.resource == resource]
        total = sum(share.replicas for share in own)
        if total <= entries.MOST_IDS:
            continue
        most = max(own, key=lambda share: share.replicas)
        row = covered[most.uuid]
        same = [share for share in own if covered.get(share.uuid) is row]
        others = total - sum(share.replicas for share in same)
        fit = max((entries.MOST_IDS - others) // len(same), 1)
        findings.add(
            row.entry.replicas_place,
            f"{row.path}.replicas",
            f"{total} ids of {resource} are more than the {entries.MOST_IDS} that the kubelet takes"
            f" ({len(same)} devices with {row.entry.replicas} replicas each)",
            f"at most {fit} replicas fit",
        )
