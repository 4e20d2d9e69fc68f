"""GPU specifications, as rehearsals write them, become simulated GPUs; wrong ones are refused.

A specification is a catalogue name or a map {model, uuid, memoryMiB, pciDevice, migMode,
instances: [{profile, start}], profileIds: {profile: id}}. What NVML could not show is refused:
instances that overlap, that stand where their profile may not, or on a GPU without MIG mode.
"""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from shared.simulation.gpu import catalogue
from shared.simulation.gpu.catalogue import Layout, Model, Profile
from shared.simulation.gpu.state import Gpu, Instance

_KEYS = ("model", "uuid", "memoryMiB", "pciDevice", "migMode", "instances", "profileIds")
_VENDOR = 0x10DE


class SpecError(ValueError):
    """A GPU specification that cannot be simulated; the text says which and why."""


def build(node: str, specs: Iterable[str | Mapping[str, Any]]) -> tuple[Gpu, ...]:
    """Make the GPUs of a node from their specifications, in index order.

    Raises:
        SpecError: one of them cannot be simulated.
    """
    serials = itertools.count(1)
    gpus = []
    for index, spec in enumerate(specs):
        try:
            gpus.append(_gpu(node, index, _as_map(spec), serials))
        except (SpecError, catalogue.UnknownModelError) as error:
            raise SpecError(f"GPU {index} of {node}: {error}") from error
    if len({gpu.uuid for gpu in gpus}) < len(gpus):
        raise SpecError(f"two GPUs of {node} have the same UUID: give each its own")
    return tuple(gpus)


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


def _gpu(node: str, index: int, spec: Mapping[str, Any], serials: Iterable[int]) -> Gpu:
    model = catalogue.model(str(spec["model"]))
    instances = spec.get("instances") or ()
    mig_mode = _switch(spec.get("migMode", bool(instances)))
    if mig_mode and model.layout is None:
        raise SpecError(f"a {model.name} cannot do MIG: leave migMode and instances out")
    if instances and not mig_mode:
        raise SpecError("instances need MIG mode: write migMode: on, or leave it out")
    device = _device(spec.get("pciDevice"), model)
    gpu = Gpu(
        index=index,
        uuid=str(spec.get("uuid") or f"GPU-{_uuid(f'{node}/{index}/{model.name}')}"),
        model=model.name,
        product=_product(model, device),
        pci_device=device << 16 | _VENDOR,
        memory_mib=int(spec.get("memoryMiB") or model.memory_mib),
        compute_capability=model.compute_capability,
        layout=model.layout,
        profiles=_profiles(model, spec.get("profileIds") or {}),
        mig_mode=mig_mode,
    )
    for row, serial in zip(instances, serials, strict=False):
        gpu.instances.append(_instance(gpu, row, serial))
    return gpu


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


def _profiles(model: Model, ids: Mapping[str, int]) -> tuple[Profile, ...]:
    names = [profile.name for profile in model.profiles]
    for name in ids:
        if name not in names:
            raise SpecError(f"profileIds names {name!r}: a {model.name} has {', '.join(names)}")
    return tuple(
        dataclasses.replace(profile, id=ids.get(profile.name, profile.id))
        for profile in model.profiles
    )


def _instance(gpu: Gpu, row: Mapping[str, Any], serial: int) -> Instance:
    if not isinstance(row, Mapping) or set(row) != {"profile", "start"}:
        raise SpecError(f"instance {row!r}: write {{profile: <name>, start: <unit>}}")
    profile, start = _named(gpu, str(row["profile"])), int(row["start"])
    if reason := refusal(gpu, profile, start):
        raise SpecError(reason)
    assert gpu.layout is not None  # noqa: S101  # a GPU without layout has no profiles
    gpu_instance = _gpu_instance_id(gpu.layout, profile, start, swapped=gpu.index % 2 == 1)
    return Instance(
        serial=serial,
        index=len(gpu.instances),
        uuid=f"MIG-{_uuid(f'{gpu.uuid}/{gpu_instance}/0/{serial}')}",
        profile=profile,
        start=start,
        gpu_instance=gpu_instance,
    )


def _named(gpu: Gpu, name: str) -> Profile:
    for profile in gpu.profiles:
        if profile.name == name:
            return profile
    names = ", ".join(profile.name for profile in gpu.profiles)
    raise SpecError(f"a {gpu.model} has no profile {name!r}, it has {names}")


def refusal(gpu: Gpu, profile: Profile, start: int) -> str:
    """Say why an instance cannot stand there beside the GPU's others; empty where it can."""
    kinds = [each.profile.kind for each in gpu.instances]
    overlapping = any(
        start < each.start + each.profile.size and each.start < start + profile.size
        for each in gpu.instances
    )
    if start not in profile.starts:
        return f"a {profile.name} may start at {profile.starts}, not at {start}"
    if profile.memory_mib is None or profile.multiprocessors is None:
        return f"nobody published how large a {profile.name} is: it cannot be simulated"
    if overlapping:
        return f"a {profile.name} at {start} needs units that another instance has"
    if kinds.count(profile.kind) >= profile.most:
        return f"a {gpu.model} has room for {profile.most} of {profile.name}"
    return _exclusion(gpu.layout, [*kinds, profile.kind])


def _exclusion(layout: Layout | None, kinds: list[str]) -> str:
    if layout is None:
        return "the GPU cannot do MIG"
    if sum(kind in layout.at_most_one_of for kind in kinds) > 1:
        return "only one instance of a GPU may have the media extensions"
    everything = [kind for kind in kinds if kind in layout.all_media]
    rest = [kind for kind in kinds if kind not in layout.all_media]
    if everything and (len(everything) > 1 or not layout.beside_all_media.issuperset(rest)):
        return "an instance with all media engines leaves none: the others must be -me"
    return ""


def _gpu_instance_id(layout: Layout, profile: Profile, start: int, *, swapped: bool) -> int:
    """Number a GPU instance as the driver's heap does: 0 full, then halves, quarters, eighths.

    Some boards have the halves swapped, even beside others on one host: every second GPU here
    is one, so that nobody can rely on the numbers.
    """
    if swapped and profile.size < layout.units:
        start = (start + layout.units // 2) % layout.units
    return layout.units // profile.size - 1 + start // profile.size


def _uuid(name: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_DNS, name)
