"""GPU specifications, as rehearsals write them, become simulated GPUs; wrong ones are refused.

A specification is a catalogue name or a map {model, uuid, memoryMiB, pciDevice, migMode,
instances: [{profile, start}], profileIds: {profile: id}, profileNames: {profile: name}}; ids and
names of profiles depend on the driver. What NVML could not show is refused: instances that
overlap, that stand where their profile may not, or on a GPU without MIG mode.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from shared.simulation.gpu import catalogue, lifecycle, rules
from shared.simulation.gpu.catalogue import Model, Profile
from shared.simulation.gpu.state import Gpu, Node, made_uuid

_KEYS = (
    "model",
    "uuid",
    "memoryMiB",
    "pciDevice",
    "migMode",
    "instances",
    "profileIds",
    "profileNames",
)
_VENDOR = 0x10DE


class SpecError(ValueError):
    """A GPU specification that cannot be simulated; the text says which and why."""


def build(name: str, specs: Iterable[str | Mapping[str, Any]]) -> tuple[Gpu, ...]:
    """Make the GPUs of the node of this name, in index order, from their specifications.

    Raises:
        SpecError: one of them cannot be simulated.
    """
    maps = []
    gpus: list[Gpu] = []
    for index, spec in enumerate(specs):
        with _about(index, name):
            maps.append(_as_map(spec))
            gpus.append(_gpu(name, index, maps[-1]))
    if len({gpu.uuid for gpu in gpus}) < len(gpus):
        raise SpecError(f"two GPUs of {name} have the same UUID: give each its own")
    node = Node(name=name, gpus=tuple(gpus), now_us=lambda: 0)  # nothing runs while it is built
    for gpu, spec in zip(gpus, maps, strict=True):
        with _about(gpu.index, name):
            for row in spec.get("instances") or ():
                _stand(node, gpu, row)
    return node.gpus


@contextlib.contextmanager
def _about(index: int, node: str) -> Iterator[None]:
    """Say of which GPU a specification is wrong."""
    try:
        yield
    except (SpecError, catalogue.UnknownModelError) as error:
        raise SpecError(f"GPU {index} of {node}: {error}") from error


def _as_map(spec: str | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(spec, str):
        return {"model": spec}
    if not isinstance(spec, Mapping) or "model" not in spec:
        raise SpecError(f"{spec!r} is neither a catalogue name nor a map with a model")
    for key in spec:
        if key not in _KEYS:
            near = difflib.get_close_matches(str(key), _KEYS, n=1) or _KEYS
            raise SpecError(f"unknown key {key!r}: write {' or '.join(near)}")
    return spec


def _gpu(node: str, index: int, spec: Mapping[str, Any]) -> Gpu:
    model = catalogue.model(str(spec["model"]))
    instances = spec.get("instances") or ()
    mig_mode = _switch(spec.get("migMode", bool(instances)))
    if mig_mode and model.layout is None:
        raise SpecError(f"a {model.name} cannot do MIG: leave MIG mode and instances out")
    if instances and not mig_mode:
        raise SpecError("instances need MIG mode: switch it on, or say nothing of it")
    device = _device(spec.get("pciDevice"), model)
    return Gpu(
        index=index,
        uuid=str(spec.get("uuid") or f"GPU-{made_uuid(f'{node}/{index}/{model.name}')}"),
        model=model.name,
        product=_product(model, device),
        pci_device=device << 16 | _VENDOR,
        memory_mib=int(spec.get("memoryMiB") or model.memory_mib),
        compute_capability=model.compute_capability,
        layout=model.layout,
        profiles=_profiles(model, spec),
        mig_mode=mig_mode,
        mig_pending=mig_mode,
    )


def _switch(value: object) -> bool:
    """Read `on` or `off`, also as a text: whether YAML made a boolean of it depends on its age."""
    switches: dict[object, bool] = {True: True, False: False, "on": True, "off": False}
    try:
        return switches[value]
    except (KeyError, TypeError):
        raise SpecError(f"migMode is {value!r}: write on or off") from None


def _device(given: object, model: Model) -> int:
    """Read a PCI device id, with or without the vendor's half, as a number or a hex text."""
    if given is None:
        return model.boards[0].device
    try:
        number = int(given, 16) if isinstance(given, str) else int(str(given))
    except ValueError:
        raise SpecError(f"pciDevice is {given!r}: write the id, such as 0x20B2") from None
    return number >> 16 if number > 0xFFFF else number


def _product(model: Model, device: int) -> str:
    boards = [board for board in model.boards if board.device == device] or list(model.boards)
    return boards[0].product


def _profiles(model: Model, spec: Mapping[str, Any]) -> tuple[Profile, ...]:
    ids, names = spec.get("profileIds") or {}, spec.get("profileNames") or {}
    known = [profile.name for profile in model.profiles]
    for key, given in (("profileIds", ids), ("profileNames", names)):
        for name in given:
            if name not in known:
                raise SpecError(f"{key} names {name!r}: a {model.name} has {', '.join(known)}")
    return tuple(
        dataclasses.replace(
            profile,
            id=ids.get(profile.name, profile.id),
            name=names.get(profile.name, profile.name),
        )
        for profile in model.profiles
    )


def _stand(node: Node, gpu: Gpu, row: Mapping[str, Any]) -> None:
    """Put an instance on the GPU, with a compute instance as wide as it is."""
    if not isinstance(row, Mapping) or set(row) != {"profile", "start"}:
        raise SpecError(f"instance {row!r}: write {{profile: <name>, start: <unit>}}")
    profile, start = _named(gpu, str(row["profile"])), int(row["start"])
    if reason := rules.unfit(gpu, profile, start):
        raise SpecError(reason)
    instance = lifecycle.create(node, gpu, profile, start)
    lifecycle.create_compute(node, gpu, instance, profile.compute[-1], None)


def _named(gpu: Gpu, name: str) -> Profile:
    for profile in gpu.profiles:
        if profile.name == name:
            return profile
    names = ", ".join(profile.name for profile in gpu.profiles)
    raise SpecError(f"a {gpu.model} has no profile {name!r}, it has {names}")
