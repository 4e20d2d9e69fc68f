"""XID events and looks at the hardware → a verdict on each device. Pure; `loop` feeds it.

A verdict covers a whole GPU (all its slots, MIG or not) or one MIG instance, and nothing else.
An XID that counts as fatal withholds its device until the node boots again: the verdict is kept
in inventory.json, so a restart of the service does not forget it. A lost or silent GPU is judged
by what NVML says now, so it is back as soon as it answers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from shared.domain.gpu import HEALTHY, Gpu, Hardware, Health, HealthState, MigDevice

# Errors of the application on the GPU, not of the GPU: NVIDIA's device plugin ignores the same
# (k8s-device-plugin, internal/rm/health.go).
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
Verdicts = Mapping[str, Health]  # by GPU or MIG device UUID; healthy devices are absent


def after_xid(
    verdicts: Verdicts,
    hardware: Hardware,
    *,
    gpu_uuid: str,
    xid: int,
    instance: int | None,
    now: int,
) -> Verdicts:
    """Add the verdict of one XID event; the first fatal XID on a device keeps its date.

    `instance` is the GPU instance id of the event, None for the whole GPU. An event on an
    instance that no longer exists is judged on the whole GPU: better too careful than silent.
    """
    if xid in APPLICATION_XIDS:
        return verdicts
    device = _instance_uuid(hardware, gpu_uuid, instance) or gpu_uuid
    if device in verdicts:
        return verdicts
    return {**verdicts, device: _sick(xid, now)}


def verdicts_in(gpus: Collection[Gpu]) -> Verdicts:
    """Read back the verdicts of an earlier inventory of this boot."""
    found = {gpu.uuid: gpu.health for gpu in gpus}
    found |= {device.uuid: device.health for gpu in gpus for device in gpu.mig_devices}
    return {
        uuid: verdict if verdict.state is HealthState.SICK else _sick(verdict.xid, verdict.since_ns)
        for uuid, verdict in found.items()
        if verdict.xid is not None
    }


def judged(gpu: Gpu, verdicts: Verdicts, before: Gpu | None, now: int) -> Gpu:
    """One GPU of a look, with the health to publish and the date since when it holds."""
    seen = _told(gpu.health, verdicts.get(gpu.uuid, HEALTHY))
    health = _dated(seen, before.health if before else HEALTHY, now)
    former = {device.uuid: device.health for device in before.mig_devices} if before else {}
    return dataclasses.replace(
        gpu,
        health=health,
        mig_devices=tuple(
            _judged_instance(device, health, verdicts, former.get(device.uuid, HEALTHY), now)
            for device in gpu.mig_devices
        ),
    )


def _sick(xid: int, since_ns: int) -> Health:
    reason = f"XID {xid}: drain the pods on it, then reset the GPU or reboot the node"
    return Health(state=HealthState.SICK, reason=reason, xid=xid, since_ns=since_ns)


def _told(seen: Health, verdict: Health) -> Health:
    """What NVML says now goes before a verdict; its XID is told all the same (79: lost as well)."""
    if seen.usable or verdict.usable:
        return verdict if seen.usable else seen
    return dataclasses.replace(
        seen, xid=verdict.xid, reason=f"XID {verdict.xid}; {seen.reason}", since_ns=verdict.since_ns
    )


def _judged_instance(
    device: MigDevice, parent: Health, verdicts: Verdicts, before: Health, now: int
) -> MigDevice:
    seen = parent if not parent.usable else verdicts.get(device.uuid, HEALTHY)
    return dataclasses.replace(device, health=_dated(seen, before, now))


def _dated(health: Health, before: Health, now: int) -> Health:
    if health.usable or health.since_ns:
        return health
    same = before.state is health.state and before.reason == health.reason
    return dataclasses.replace(health, since_ns=before.since_ns if same else now)


def _instance_uuid(hardware: Hardware, gpu_uuid: str, instance: int | None) -> str | None:
    for gpu in hardware.gpus:
        for device in gpu.mig_devices:
            if gpu.uuid == gpu_uuid and device.gpu_instance == instance:
                return device.uuid
    return None
