"""The GPUs and holders that `slicewire plan` is asked about, from its flags and state file.

Catalogue GPUs are read through the simulated NVML by the very driver that reads real ones, so a
plan sees what an advertiser would see.
"""

from __future__ import annotations

from typing import Annotated

import pydantic
import yaml

from services.views import planned
from shared.domain.gpu import Gpu
from shared.domain.sharing import Share
from shared.domain.slots import SEPARATOR, slot_id
from shared.nvml.driver import PynvmlDriver
from shared.sharing import suggest
from shared.simulation.gpu import boards, catalogue, install, state
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
        planned.Board(gpu=gpu, model=name, slices=_slices(name))
        for gpu, name in zip(_seen(simulated), names, strict=True)
    )


def holders(given: State, found: tuple[Gpu, ...], shares: tuple[Share, ...]) -> dict[str, set[str]]:
    """Return the held slots of each resource; slots may be written by index.

    Who holds a MIG instance is taken to hold it in the form that is wanted of it.

    Raises:
        StateError: a slot stands on a device that is not there.
    """
    uuids = {str(gpu.index): gpu.uuid for gpu in found}
    uuids |= {f"{gpu.index}:{mig.index}": mig.uuid for gpu in found for mig in gpu.mig_devices}
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


def _slot(written: str, uuids: dict[str, str]) -> str:
    device, separator, replica = written.partition(SEPARATOR)
    uuid = uuids.get(device, device)
    if uuid not in uuids.values() or (separator and not replica.isdecimal()):
        known = suggest.listed(uuids)
        raise StateError(f"the state file names the slot {written!r}, devices are {known}")
    return f"{uuid}{separator}{replica}"


def _slices(name: str) -> int:
    return max((profile.slices for profile in catalogue.model(name).profiles), default=0)


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
