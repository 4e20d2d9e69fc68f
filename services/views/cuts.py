"""How a node's GPUs are cut, and where a change of that stands → the forms of `status`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.contract.messages import Intent, Ledger, Phase, Progress
from shared.domain.errors import Problem
from shared.domain.gpu import Gpu, MigDevice
from shared.domain.slots import device_of

NOT_HEARD = "the agent has not answered the newest wish yet"
Pods = Mapping[str, tuple[str, ...]]  # who has slots of a device, by its UUID


def gpu_form(gpu: Gpu, pods: Pods) -> dict[str, Any]:
    """The keys that a GPU has for its MIG mode and instances; `mig` is null where it has none."""
    return {
        "mig": gpu.mig_mode.current if gpu.mig_mode else None,
        "migPending": bool(gpu.mig_mode and gpu.mig_mode.pending != gpu.mig_mode.current),
        "slices": slices(gpu),
        "instances": [_instance(device, pods) for device in gpu.mig_devices],
    }


def slices(gpu: Gpu) -> int:
    """How many memory slices a GPU has, as far as its instances show; 0 where it has none.

    An instance keeps a little of its memory to itself, never half a slice.
    """
    if not gpu.mig_devices:
        return 0
    found = max(gpu.mig_devices, key=lambda each: each.memory_mib / each.size)
    ends = (each.start + each.size for each in gpu.mig_devices)
    per_slice = found.memory_mib / found.size
    return max(round(gpu.memory_mib / per_slice) if per_slice else 0, *ends)


def holders(ledger: Ledger | None) -> Pods:
    """Name the pods on each device; a grant whose pod is not known yet has none."""
    found: dict[str, set[str]] = {}
    for row in ledger.rows if ledger else ():
        if row.holder is not None:
            found.setdefault(device_of(row.slot), set()).add(row.holder.pod_key)
    return {device: tuple(sorted(pods)) for device, pods in found.items()}


def change_form(intent: Intent | None, progress: Progress | None) -> dict[str, Any]:
    """The layout that is wanted of a node and what has become of it; null where none is."""
    empty = ("config", "phase", "reason", "sentence", "step", "blockers")
    if intent is None or not (intent.mig_config or intent.mig_problems):
        return dict.fromkeys(empty, None)
    form: dict[str, Any] = {"config": intent.mig_config, "step": "", "blockers": []}
    if intent.mig_problems:
        return form | _refused(intent.mig_problems)
    if progress is None or progress.stamp.generation != intent.stamp.generation:
        return form | {"phase": "pending", "reason": "", "sentence": NOT_HEARD}
    return form | {
        "phase": progress.phase.value,
        "reason": progress.reason,
        "sentence": progress.sentence,
        "step": progress.step,
        "blockers": sorted({holder.pod_key for holder in progress.blockers}),
    }


def _refused(problems: tuple[Problem, ...]) -> dict[str, str]:
    said = "; ".join(problem.sentence() for problem in problems)
    return {"phase": Phase.FAILED.value, "reason": "Refused", "sentence": said}


def _instance(device: MigDevice, pods: Pods) -> dict[str, Any]:
    return {
        "uuid": device.uuid,
        "profile": device.profile,
        "start": device.start,
        "size": device.size,
        "health": device.health.state.value,
        "reason": device.health.reason,
        "pods": list(pods.get(device.uuid, ())),
    }
