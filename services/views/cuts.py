"""How a node's GPUs are cut, and where a change of that stands → the forms of `status`. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from services.views import used
from shared.contract.messages import Drain, Intent, Inventory, Ledger, Phase, Progress
from shared.domain.errors import Problem
from shared.domain.gpu import Gpu, MigDevice
from shared.domain.slots import SlotState, device_of
from shared.runtime import clock
from shared.waiting import words

NOT_HEARD = "the agent has not answered the newest wish yet"
CHANGE = (
    *("config", "phase", "reason", "sentence", "step", "number", "steps", "blockers"),
    *("pods", "waits", "since", "limit", "retry"),
)
Pods = Mapping[str, tuple[str, ...]]  # who has slots of a device, by its UUID
Slots = Mapping[str, Mapping[str, int]]  # how many slots of a device are in which state


@dataclass(frozen=True, slots=True)
class On:
    """What is on the devices of a node, each by its UUID."""

    pods: Pods = field(default_factory=dict)
    slots: Slots = field(default_factory=dict)
    uses: used.Uses = field(default_factory=dict)


def gpu_form(gpu: Gpu, on: On) -> dict[str, Any]:
    """The keys that a GPU has for its MIG mode and instances; `mig` is null where it has none."""
    return {
        "mig": gpu.mig_mode.current if gpu.mig_mode else None,
        "migPending": bool(gpu.mig_mode and gpu.mig_mode.pending != gpu.mig_mode.current),
        "slices": slices(gpu),
        "instances": [_instance(device, on) for device in gpu.mig_devices],
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


def slots(
    ledger: Ledger | None, inventory: Inventory | None, progress: Progress | None = None
) -> Slots:
    """Count the slots of each device by their states: together they are what the GPU's are.

    The ledger names slots that somebody has, and counts the others for a whole GPU. Of these the
    unhealthy ones are on devices that are sick, or else that the agent asks to withhold; the free
    ones are rather on devices that nothing retires on.
    """
    if ledger is None or inventory is None:
        return {}
    found = {share.uuid: Counter[str]() for share in inventory.shares}
    taken: Counter[tuple[str, str]] = Counter()
    for row in ledger.rows:
        device = device_of(row.slot)
        if device in found:
            found[device][row.state.value] += 1
            taken[device, row.resource] += row.state is not SlotState.RETIRING
    sick, withheld = _sick(inventory), Counter(map(device_of, progress.slots if progress else ()))
    for each in ledger.counts:
        rooms = {
            share.uuid: share.replicas - taken[share.uuid, share.resource]
            for share in inventory.shares
            if (share.gpu_uuid, share.resource) == (each.gpu_uuid, each.resource)
        }
        worst = sorted(rooms, key=lambda uuid: (uuid not in sick, -withheld[uuid]))
        _spread(found, rooms, worst, SlotState.UNHEALTHY, each.counts.unhealthy)
        best = sorted(rooms, key=lambda uuid: found[uuid][SlotState.RETIRING.value])
        _spread(found, rooms, best, SlotState.FREE, each.counts.free)
    return {uuid: +counts for uuid, counts in found.items()}


def _sick(inventory: Inventory) -> frozenset[str]:
    """MIG devices that are not well themselves."""
    return frozenset(
        device.uuid
        for gpu in inventory.gpus
        for device in gpu.mig_devices
        if not device.health.usable
    )


def _spread(
    found: Mapping[str, Counter[str]],
    rooms: dict[str, int],
    order: Iterable[str],
    state: SlotState,
    count: int,
) -> None:
    """Give devices so many slots of a state, as far as each has room for them."""
    for uuid in order:
        mine = min(max(rooms[uuid], 0), count)
        found[uuid][state.value] += mine
        rooms[uuid] -= mine
        count -= mine


def change_form(intent: Intent | None, progress: Progress | None) -> dict[str, Any]:
    """The layout that is wanted of a node and what has become of it; null where none is."""
    if intent is None or not (intent.mig_config or intent.mig_problems):
        return dict.fromkeys(CHANGE, None)
    form = dict.fromkeys(CHANGE) | {
        "config": intent.mig_config,
        "reason": "",
        "step": "",
        "blockers": [],
    }
    if intent.mig_problems:
        return form | _refused(intent.mig_problems)
    if progress is None or progress.stamp.generation != intent.stamp.generation:
        return form | {"phase": "pending", "sentence": NOT_HEARD}
    return form | _stands(progress, intent.drain if progress.phase in words.WAITS else None)


def _stands(progress: Progress, drain: Drain | None) -> dict[str, Any]:
    """Where the agent stands, or the controller, which may have given up what the agent awaits."""
    pods = {each.pod: each for each in drain.pods} if drain else {}
    names = sorted({holder.pod_key for holder in progress.blockers} | pods.keys())
    form = {
        "phase": progress.phase.value,
        "reason": progress.reason,
        "sentence": progress.sentence,
        "step": progress.step,
        "number": progress.number or None,
        "steps": progress.steps or None,
        "blockers": names,
    }
    if drain and drain.reason:
        return form | {
            "phase": Phase.FAILED.value,
            "reason": drain.reason,
            "sentence": drain.sentence,
            "retry": _moment(drain.until_ns),
        }
    if progress.phase is Phase.FAILED:
        return form | {"retry": _moment(progress.until_ns)}
    since_ns = (drain.since_ns if drain else 0) or progress.since_ns
    until_ns = min(
        (at for at in (progress.until_ns, drain.until_ns if drain else 0) if at), default=0
    )
    return form | {
        "waits": drain.sentence if drain else "",
        "pods": [
            {
                "pod": name,
                "why": pods[name].why if name in pods else "",
                "since": _moment(pods[name].since_ns if name in pods else since_ns),
            }
            for name in names
        ],
        "since": _moment(since_ns),
        "limit": _moment(until_ns),
    }


def _moment(ns: int) -> str | None:
    return clock.utc(ns) if ns else None


def _refused(problems: tuple[Problem, ...]) -> dict[str, str]:
    said = "; ".join(problem.sentence() for problem in problems)
    return {"phase": Phase.FAILED.value, "reason": "Refused", "sentence": said}


def _instance(device: MigDevice, on: On) -> dict[str, Any]:
    return {
        "uuid": device.uuid,
        "profile": device.profile,
        "start": device.start,
        "size": device.size,
        "health": device.health.state.value,
        "reason": device.health.reason,
        "slots": dict(on.slots.get(device.uuid, {})),
        "used": used.of_device(device.uuid, on.uses),
        "pods": list(on.pods.get(device.uuid, ())),
    }
