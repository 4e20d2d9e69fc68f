"""XID events and looks at the hardware → a verdict on each device. Pure; `loop` feeds it.

A verdict covers a whole GPU (all its slots, MIG or not) or one MIG instance, and nothing else. It
stands until the device has been well for as long as the sharing text says. One that the XID leaves
in need of a reset has to be seen lost and back before that, and one that falls sick again and again
stays out until an operator clears it (docs/adr/0020). All is kept in the inventory, so a restart of
the service forgets nothing; a boot does, for it resets every GPU. A lost or silent GPU without an
XID is judged by what NVML says now, so it is back as soon as it answers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from shared.contract import names
from shared.domain.gpu import HEALTHY, Gpu, Hardware, Health, HealthState, MigDevice
from shared.domain.health import HealthRecord, HealthRules, Verdict

# Errors of the application on the GPU, not of the GPU: NVIDIA's device plugin ignores the same
# (k8s-device-plugin, internal/rm/health.go).
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
# Those after which NVIDIA's catalogue has the GPU reset (docs.nvidia.com/deploy/xid-errors).
RESET_XIDS = frozenset({46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143})
MOST_FALLS = 3  # within the window: then time alone does not bring a device back
WINDOW_S = 600
SECOND_NS = 1_000_000_000

Verdicts = Mapping[str, Health]  # by GPU or MIG device UUID; healthy devices are absent


def remembered(record: HealthRecord, *, same_boot: bool) -> HealthRecord:
    """What a new process goes on with: what was wrong while nobody looked is not known."""
    kept = record.verdicts if same_boot else ()
    verdicts = tuple(dataclasses.replace(verdict, quiet_ns=0) for verdict in kept)
    return dataclasses.replace(record, verdicts=verdicts)


def by_clock(record: HealthRecord, set_by_ns: int) -> HealthRecord:
    """The same verdicts where the clock has been set: what was quiet for 10 s is that still.

    When a device fell stays as it was told: an Event names it by that.
    """
    verdicts = tuple(
        dataclasses.replace(verdict, quiet_ns=verdict.quiet_ns and verdict.quiet_ns + set_by_ns)
        for verdict in record.verdicts
    )
    return dataclasses.replace(record, verdicts=verdicts)


def under(record: HealthRecord, rules: HealthRules, cleared: str) -> HealthRecord:
    """Take the rules that are wanted now; a clearing that is new ends every verdict."""
    is_cleared = cleared not in ("", record.cleared)
    kept = (
        verdict for verdict in record.verdicts if not is_cleared and _is_fatal(verdict.xid, rules)
    )
    return HealthRecord(rules=rules, cleared=cleared, verdicts=tuple(kept))


def after_xid(
    record: HealthRecord,
    hardware: Hardware,
    *,
    gpu_uuid: str,
    xid: int,
    instance: int | None,
    now: int,
) -> HealthRecord:
    """Add what one XID event makes of its device.

    `instance` is the GPU instance id of the event, None for the whole GPU. An event on an
    instance that no longer exists is judged on the whole GPU: better too careful than silent.
    """
    if not _is_fatal(xid, record.rules):
        return record
    uuid = _instance_uuid(hardware, gpu_uuid, instance) or gpu_uuid
    others = tuple(verdict for verdict in record.verdicts if verdict.uuid != uuid)
    former = next((verdict for verdict in record.verdicts if verdict.uuid == uuid), None)
    if former is None:
        struck = Verdict(uuid=uuid, gpu_uuid=gpu_uuid, xid=xid, falls=(now,), quiet_ns=now)
    elif former.standing:
        struck = _struck_again(former, xid, now)
    else:
        struck = _relapsed(former, xid, record.rules, now)
    return dataclasses.replace(record, verdicts=(*others, struck))


def after_look(record: HealthRecord, hardware: Hardware, now: int) -> HealthRecord:
    """Let devices recover that have been well for long enough; forget falls of long ago."""
    seen = {gpu.uuid: gpu for gpu in hardware.gpus}
    looked_at = (
        _looked_at(verdict, seen.get(verdict.gpu_uuid), record.rules, now)
        for verdict in record.verdicts
    )
    kept = tuple(verdict for verdict in looked_at if verdict is not None)
    return dataclasses.replace(record, verdicts=kept)


def standing(record: HealthRecord) -> Verdicts:
    """Say what is withheld now, and why."""
    return dict(_sick(record))


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


def ignored(rules: HealthRules) -> frozenset[int]:
    """XIDs that withdraw nothing; every other one withdraws its device."""
    return APPLICATION_XIDS.union(rules.ignore).difference(rules.fatal)


def _is_fatal(xid: int, rules: HealthRules) -> bool:
    return xid not in ignored(rules)


def _struck_again(former: Verdict, xid: int, now: int) -> Verdict:
    """The first XID keeps its date, and its number unless only the new one asks for a reset."""
    if xid not in RESET_XIDS:
        return dataclasses.replace(former, quiet_ns=now)
    worst = former.xid if former.xid in RESET_XIDS else xid
    return dataclasses.replace(former, xid=worst, was_reset=False, quiet_ns=now)


def _relapsed(former: Verdict, xid: int, rules: HealthRules, now: int) -> Verdict:
    recent = [fall for fall in former.falls if now - fall < _window_ns(rules)]
    return dataclasses.replace(
        former,
        xid=xid,
        falls=(*recent, now)[-MOST_FALLS:],
        standing=True,
        was_reset=False,
        quiet_ns=now,
    )


def _looked_at(verdict: Verdict, gpu: Gpu | None, rules: HealthRules, now: int) -> Verdict | None:
    """A verdict after one look at its GPU, None for one with nothing left to say."""
    if not verdict.standing:
        return verdict if now - verdict.falls[-1] < _window_ns(rules) else None
    if gpu is None or not gpu.health.usable:
        was_lost = gpu is None or gpu.health.state is HealthState.LOST
        return dataclasses.replace(verdict, was_reset=verdict.was_reset or was_lost, quiet_ns=now)
    if verdict.uuid not in {gpu.uuid, *(device.uuid for device in gpu.mig_devices)}:
        return None  # a MIG device that was destroyed takes its verdict with it
    quiet_ns = verdict.quiet_ns or now
    return dataclasses.replace(
        verdict, quiet_ns=quiet_ns, standing=not _is_over(verdict, rules, now - quiet_ns)
    )


def _is_over(verdict: Verdict, rules: HealthRules, quiet_for: int) -> bool:
    """Whether a device that has been well for so long (ns) is served again."""
    if rules.recover_after_s is None or _is_flapping(verdict) or _is_to_be_reset(verdict):
        return False
    return quiet_for >= rules.recover_after_s * SECOND_NS


def _is_flapping(verdict: Verdict) -> bool:
    return len(verdict.falls) >= MOST_FALLS


def _is_to_be_reset(verdict: Verdict) -> bool:
    return verdict.xid in RESET_XIDS and not verdict.was_reset


def _window_ns(rules: HealthRules) -> int:
    """How long falls are remembered: always long enough for as many as there may be."""
    return max(WINDOW_S, 10 * (rules.recover_after_s or 0)) * SECOND_NS


def _sick(record: HealthRecord) -> Iterator[tuple[str, Health]]:
    for verdict in record.verdicts:
        if verdict.standing:
            reason = f"XID {verdict.xid}{_outlook(verdict, record.rules)}"
            yield (
                verdict.uuid,
                Health(
                    state=HealthState.SICK,
                    reason=reason,
                    xid=verdict.xid,
                    since_ns=verdict.falls[-1],
                ),
            )


def _outlook(verdict: Verdict, rules: HealthRules) -> str:
    """Say what ends it, after the XID."""
    clear = f"annotate the node with {names.CLEAR_HEALTH_ANNOTATION}"
    if _is_flapping(verdict):
        return f", time and again: find out why, then {clear}"
    if _is_to_be_reset(verdict):
        return f": drain the pods on it, then reset the GPU and {clear}, or reboot the node"
    if rules.recover_after_s is None:
        return f": look at it, then {clear}"
    return f": it is served again when it has been well for {rules.recover_after_s} s"


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
