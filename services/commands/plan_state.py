"""Modes, instances and holders that `slicewire plan` is asked about, from its state file."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

import pydantic
import yaml

from services.views import planned
from shared.domain.gpu import Gpu
from shared.domain.sharing import Share
from shared.domain.slots import SEPARATOR, device_of, slot_id
from shared.geometry import board as geometry
from shared.geometry import plan
from shared.sharing import suggest


class StateError(ValueError):
    """Flags or a state file that describe no node; the text says what to write."""


class Instance(pydantic.BaseModel):
    """A MIG instance that is there already, and the pod that holds it."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)
    profile: str
    start: int
    holder: str = ""


class State(pydantic.BaseModel):
    """What a node holds before the plan; GPUs by index, holders by resource and slot."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)
    mode: dict[int, bool] = {}
    instances: dict[int, list[Instance]] = {}
    holders: dict[str, dict[str, Annotated[str, pydantic.Field(pattern="^[^/]+/[^/]+$")]]] = {}


def read(text: str) -> State:
    """Read a state file.

    Raises:
        StateError: it is wrong, with the first mistake.
    """
    try:
        return State.model_validate(yaml.safe_load(text) or {})
    except yaml.YAMLError as error:
        raise StateError(f"the state file is not YAML: {suggest.shorten(str(error))}") from None
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole file"
        raise StateError(f"the state file, {place}: {first['msg']}") from None


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


def without(given: State, pods: Collection[str]) -> State:
    """Return the state when these pods have gone."""
    return given.model_copy(
        update={
            "instances": {
                index: [_left(instance, pods) for instance in instances]
                for index, instances in given.instances.items()
            },
            "holders": {
                resource: {slot: pod for slot, pod in taken.items() if pod not in pods}
                for resource, taken in given.holders.items()
            },
        }
    )


def holders(given: State, found: tuple[Gpu, ...], shares: tuple[Share, ...]) -> dict[str, set[str]]:
    """Return the held slots of each resource; slots may be written by index.

    Who holds a MIG instance is taken to hold it in the form that is wanted of it.

    Raises:
        StateError: a slot stands on a device that is not there.
    """
    uuids = _uuids(found)
    held: dict[str, set[str]] = {}
    for resource, taken in given.holders.items():
        for slot in taken:
            held.setdefault(resource, set()).add(_slot(slot, uuids))
    wanted = {share.uuid: share for share in shares}
    for index, instances in given.instances.items():
        for mig, instance in zip(found[index].mig_devices, instances, strict=True):
            share = wanted.get(mig.uuid)
            if instance.holder and share is not None:
                slot = mig.uuid if share.replicas == 1 else slot_id(mig.uuid, 0)
                held.setdefault(share.resource, set()).add(slot)
    return held


def _pods(given: State, found: tuple[Gpu, ...]) -> dict[str, set[str]]:
    """Return the pods on each GPU and MIG device, by UUID."""
    uuids = _uuids(found)
    pods: dict[str, set[str]] = {}
    for taken in given.holders.values():
        for slot, pod in taken.items():
            pods.setdefault(device_of(_slot(slot, uuids)), set()).add(pod)
    for index, instances in given.instances.items():
        for mig, instance in zip(found[index].mig_devices, instances, strict=True):
            if instance.holder:
                pods.setdefault(mig.uuid, set()).add(instance.holder)
    return pods


def _left(instance: Instance, pods: Collection[str]) -> Instance:
    return instance.model_copy(update={"holder": ""}) if instance.holder in pods else instance


def _uuids(found: tuple[Gpu, ...]) -> dict[str, str]:
    """Return the devices by how a state file may write them: `0`, and `0:1` for MIG devices."""
    uuids = {str(gpu.index): gpu.uuid for gpu in found}
    return uuids | {
        f"{gpu.index}:{mig.index}": mig.uuid for gpu in found for mig in gpu.mig_devices
    }


def _slot(written: str, uuids: dict[str, str]) -> str:
    device, separator, replica = written.partition(SEPARATOR)
    uuid = uuids.get(device, device)
    if uuid not in uuids.values() or (separator and not replica.isdecimal()):
        known = suggest.listed(uuids)
        raise StateError(f"the state file names the slot {written!r}, devices are {known}")
    return f"{uuid}{separator}{replica}"
