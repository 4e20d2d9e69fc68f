"""Who holds what before a plan: the slots and pods of a state file on the GPUs that there are."""

from __future__ import annotations

import re

from services.commands.plan_state import State, StateError
from services.views import planned
from shared.domain.gpu import Gpu, MigDevice
from shared.domain.sharing import Share
from shared.domain.slots import SEPARATOR, device_of, replica_of, slot_id
from shared.geometry import board as geometry
from shared.geometry import plan
from shared.sharing import expand, names, suggest

_REPLICA = re.compile("0|[1-9][0-9]{0,5}")


def current(given: State, found: tuple[planned.Board, ...]) -> tuple[plan.Current, ...]:
    """Return each GPU as a MIG plan finds it, with who holds it and its instances.

    Raises:
        StateError: a slot stands on a device that is not there.
    """
    gpus = tuple(board.gpu for board in found)
    pods = _pods(given, gpus)
    return tuple(
        plan.Current(
            enabled=gpu.mig_enabled,
            standing=tuple(
                plan.Standing(
                    geometry.Instance(device.profile, device.start),
                    tuple(sorted(pods.get(device.uuid, ()))),
                )
                for device in gpu.mig_devices
            ),
            holders=tuple(sorted(pods.get(gpu.uuid, ()))),
        )
        for gpu in gpus
    )


def slots(given: State, found: tuple[Gpu, ...], shares: tuple[Share, ...]) -> dict[str, set[str]]:
    """Return the held slots of each resource.

    Who holds a MIG instance is taken to hold it in the form that is wanted of it, and as a whole
    one under strategy mixed where the text has no name for it.

    Raises:
        StateError: a slot stands on a device that is not there, or two pods hold it.
    """
    held = {resource: set(taken) for resource, taken in _by_uuid(given, found).items()}
    wanted = {share.uuid: share for share in shares}
    for index, instances in given.instances.items():
        for mig, instance in zip(found[index].mig_devices, instances, strict=True):
            if instance.holder:
                resource, slot = _form(mig, wanted.get(mig.uuid))
                held.setdefault(resource, set()).add(slot)
    return held


def _form(mig: MigDevice, share: Share | None) -> tuple[str, str]:
    """Return under which resource, and in which slot, somebody holds a MIG instance."""
    if share is None:
        return names.mig_resource(mig.profile), mig.uuid
    return share.resource, mig.uuid if share.replicas == 1 else slot_id(mig.uuid, 0)


def forms(given: State, held: dict[str, set[str]]) -> expand.Forms:
    """Return in which form each shared slot is held, where the state says it."""
    if given.strategy is None:
        return expand.AS_OFFERED
    return {
        (resource, slot): given.strategy
        for resource, taken in held.items()
        for slot in taken
        if replica_of(slot) is not None
    }


def _pods(given: State, found: tuple[Gpu, ...]) -> dict[str, set[str]]:
    """Return the pods on each GPU and MIG device, by UUID."""
    pods: dict[str, set[str]] = {}
    for taken in _by_uuid(given, found).values():
        for slot, pod in taken.items():
            pods.setdefault(device_of(slot), set()).add(pod)
    for index, instances in given.instances.items():
        for mig, instance in zip(found[index].mig_devices, instances, strict=True):
            if instance.holder:
                pods.setdefault(mig.uuid, set()).add(instance.holder)
    return pods


def _by_uuid(given: State, found: tuple[Gpu, ...]) -> dict[str, dict[str, str]]:
    """Return the pod on each slot of each resource, slots written by index under their UUID."""
    uuids = _uuids(found)
    holders: dict[str, dict[str, str]] = {}
    for resource, taken in given.holders.items():
        pods = holders.setdefault(resource, {})
        for written, pod in taken.items():
            slot = _slot(written, uuids)
            if slot in pods:
                raise StateError(f"the state file names the slot {slot} twice: keep one of them")
            pods[slot] = pod
    return holders


def _uuids(found: tuple[Gpu, ...]) -> dict[str, str]:
    """Return the devices by how a state file may write them: `0`, and `0:1` for MIG devices."""
    uuids = {str(gpu.index): gpu.uuid for gpu in found}
    return uuids | {
        f"{gpu.index}:{mig.index}": mig.uuid for gpu in found for mig in gpu.mig_devices
    }


def _slot(written: str, uuids: dict[str, str]) -> str:
    device, separator, replica = written.partition(SEPARATOR)
    uuid = uuids.get(device, device)
    if uuid not in uuids.values():
        known = suggest.listed(uuids)
        raise StateError(f"the state file names the slot {written!r}, devices are {known}")
    if separator and not _REPLICA.fullmatch(replica):
        raise StateError(
            f"the state file names the slot {written!r}: write {device}{SEPARATOR}<number>"
        )
    return f"{uuid}{separator}{replica}"
