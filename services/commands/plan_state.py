"""The GPUs and holders that `slicewire plan` is asked about, from its flags and state file.

Catalogue GPUs are read through the simulated NVML by the very driver that reads real ones, so a
plan sees what an advertiser would see.
"""

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
from shared.nvml.driver import PynvmlDriver
from shared.sharing import suggest
from shared.simulation.gpu import boards, catalogue, cutting, install, state
from shared.simulation.gpu.engine import Engine
from shared.simulation.gpu.local import LocalTransport

NODE = "plan"  # UUIDs are uuid5 of plan/<index>/<model>
MOST_GPUS = 64


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


def models(words: str) -> tuple[str, ...]:
    """Read `a100-80gb=2,t4=1`: catalogue names in index order.

    Raises:
        StateError: a count is no number, or there are too many GPUs.
    """
    found: list[str] = []
    for word in filter(None, (part.strip() for part in words.split(","))):
        name, equals, count = word.partition("=")
        if equals and not count.isdecimal():
            raise StateError(f"--gpus {word}: write {name}=<count>")
        found += [name] * (int(count) if equals else 1)
        if len(found) > MOST_GPUS:
            raise StateError(f"--gpus names more than {MOST_GPUS} GPUs")
    if not found:
        raise StateError("--gpus names no GPU: write for instance a100-80gb=2,t4=1")
    return tuple(found)


def made(names: tuple[str, ...], given: State) -> tuple[planned.Board, ...]:
    """Make the GPUs of the node.

    Raises:
        StateError: a model is unknown, or the state cannot be that of these GPUs.
    """
    for index in {*given.mode, *given.instances} - set(range(len(names))):
        raise StateError(f"the state file speaks of GPU {index}, --gpus names {len(names)} GPUs")
    specs = [_spec(index, name, given) for index, name in enumerate(names)]
    try:
        simulated = boards.build(NODE, specs)
    except boards.SpecError as error:
        raise StateError(str(error)) from None
    return tuple(
        planned.Board(gpu=gpu, model=name, table=cutting.board(catalogue.model(name)))
        for gpu, name in zip(_seen(simulated), names, strict=True)
    )


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


def _spec(index: int, name: str, given: State) -> dict[str, object]:
    instances = [
        {"profile": instance.profile, "start": instance.start}
        for instance in given.instances.get(index, ())
    ]
    mode = given.mode.get(index, bool(instances))
    return {"model": name, "migMode": mode, "instances": instances}


def _seen(simulated: tuple[state.Gpu, ...]) -> tuple[Gpu, ...]:
    install.install(LocalTransport(Engine(NODE, simulated)))
    driver = PynvmlDriver()
    try:
        driver.open()
        try:
            return tuple(driver.gpu(index) for index in range(driver.count()))
        finally:
            driver.close()
    finally:
        install.remove()
