"""The GPU models that can be simulated: catalogue.yaml as values. Read by the owner only."""

from __future__ import annotations

import functools
import importlib.resources
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from shared.sharing import suggest

HOPPER = 9  # the major number of its compute capability
NUMBER_OF_ITS_OWN = 7  # NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1


class UnknownModelError(ValueError):
    """No model has this name; the text names the nearest one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeProfile:
    """One width of compute instance in a GPU instance, and where it may start, in slices.

    `number` is its position among NVML_COMPUTE_INSTANCE_PROFILE_*, and NVML's id for it as well.
    """

    number: int
    slices: int
    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One kind of MIG instance on one model, and where it may stand.

    Memory in MiB; memory, multiprocessors and engines are None where nobody published them.
    `number` is the profile's position among NVML_GPU_INSTANCE_PROFILE_*, `id` NVML's id; `fill`
    are the starts in the order in which the driver takes them by itself.
    """

    name: str
    kind: str
    id: int
    number: int
    slices: int
    most: int
    starts: tuple[int, ...]
    fill: tuple[int, ...]
    size: int
    compute: tuple[ComputeProfile, ...]
    memory_mib: int | None
    multiprocessors: int | None
    copy_engines: int | None
    decoders: int | None
    encoders: int | None
    jpeg: int | None
    ofa: int | None

    @property
    def published(self) -> bool:
        """Whether its size is known; a driver that does not know it would not offer it."""
        return self.memory_mib is not None and self.multiprocessors is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Which instances exclude each other, beside those that need the same units."""

    units: int
    at_most_one_of: frozenset[str]  # kinds
    all_media: frozenset[str]  # kinds that leave the others without media engines
    beside_all_media: frozenset[str]  # the kinds that may stand beside one of those


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A product that carries the model: its name as NVML spells it, its PCI device id."""

    product: str
    device: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One GPU model. `layout` is None where it cannot do MIG."""

    name: str
    boards: tuple[Board, ...]
    compute_capability: tuple[int, int]
    memory_mib: int
    layout: Layout | None
    profiles: tuple[Profile, ...]


@functools.cache
def models() -> Mapping[str, Model]:
    """All models by name, in the file's order."""
    text = importlib.resources.files(__package__).joinpath("catalogue.yaml").read_text("utf-8")
    data = yaml.safe_load(text)
    return {name: _model(name, row, data) for name, row in data["models"].items()}


def model(name: str) -> Model:
    """Return the model of this name.

    Raises:
        UnknownModelError: there is none.
    """
    known = models()
    if name in known:
        return known[name]
    hint = did_you_mean(name) or f"known are {suggest.listed(known)}"
    raise UnknownModelError(f"there is no GPU model {name!r} in the catalogue: {hint}")


def did_you_mean(name: str) -> str:
    """Suggest the model that is sold under this name, as NVML or a label has it; else the nearest.

    By its letters alone `a100-sxm4-80gb` would be nearest to an H100.
    """
    sold = [
        model.name
        for model in models().values()
        if any(_words(board.product) == _words(name) for board in model.boards)
    ]
    return f'did you mean "{sold[0]}"?' if sold else suggest.did_you_mean(name, models())


def _words(name: str) -> frozenset[str]:
    """What a name says whatever the order, case and signs between its words."""
    return frozenset(re.findall(r"[a-z0-9]+", name.lower())) - {"nvidia", "tesla", "shared"}


def model_of_product(product: str) -> Model:
    """Return the model behind a product name as NVML spells it.

    Raises:
        UnknownModelError: no model's board has this name.
    """
    for each in models().values():
        if any(board.product == product for board in each.boards):
            return each
    raise UnknownModelError(f"no model in the catalogue is sold as {product!r}: add its numbers")


def _model(name: str, row: Mapping[str, Any], data: Mapping[str, Any]) -> Model:
    layout: Mapping[str, Any] = data["layouts"][row["layout"]] if "layout" in row else {}
    major, minor = row["computeCapability"]
    return Model(
        name=name,
        boards=tuple(Board(**board) for board in row["boards"]),
        compute_capability=(major, minor),
        memory_mib=row["memoryMiB"],
        layout=_layout(layout) if layout else None,
        profiles=tuple(
            _profile(profile, numbers, layout["kinds"], data["compute"], major)
            for profile, numbers in row.get("profiles", {}).items()
        ),
    )


def _layout(row: Mapping[str, Any]) -> Layout:
    all_media = row.get("allMedia", {"kinds": (), "others": ()})
    return Layout(
        units=row["units"],
        at_most_one_of=frozenset(row["atMostOneOf"]),
        all_media=frozenset(all_media["kinds"]),
        beside_all_media=frozenset(all_media["others"]),
    )


def _profile(
    name: str, numbers: list[Any], kinds: Mapping[str, Any], compute: Mapping[str, Any], major: int
) -> Profile:
    kind, memory, multiprocessors, copy, decoders, encoders, jpeg, ofa = numbers
    shape = kinds[kind]
    return Profile(
        name=name,
        kind=kind,
        id=shape["id"],
        number=shape["number"],
        slices=shape["slices"],
        most=shape["most"],
        starts=tuple(shape["starts"]),
        fill=tuple(shape.get("fill", shape["starts"])),
        size=shape["size"],
        compute=_compute(shape["slices"], compute, of_its_own=kind == "1gx2" and major >= HOPPER),
        memory_mib=memory,
        multiprocessors=multiprocessors,
        copy_engines=copy,
        decoders=decoders,
        encoders=encoders,
        jpeg=jpeg,
        ofa=ofa,
    )


def _compute(
    slices: int, data: Mapping[str, Any], *, of_its_own: bool
) -> tuple[ComputeProfile, ...]:
    """List the compute instances of a GPU instance with so many slices, the narrowest first.

    A 1g with double memory has, since Hopper, one with a number of its own.
    """
    numbers = {1: NUMBER_OF_ITS_OWN} if of_its_own else data["number"]
    return tuple(
        ComputeProfile(number=numbers[width], slices=width, starts=tuple(starts))
        for width, starts in data["starts"][slices].items()
    )
