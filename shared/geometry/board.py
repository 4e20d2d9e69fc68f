"""What one GPU can be cut into, and the ways to cut it, as values.

Whoever reads a GPU makes its `Board` of what NVML says there: names, sizes, ids and placements
differ by driver and even between GPUs of one node, so none of them is known beforehand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from shared.geometry import profiles

Counts = Mapping[str, int]  # profile name -> how many


class Instance(NamedTuple):
    """A GPU instance: its profile's name, and the first memory slice that it takes."""

    profile: str
    start: int


Layout = tuple[Instance, ...]  # by start; `ordered` makes it


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One kind of instance: `slices` of compute, `size` slices of memory from one of `starts`.

    `id` is what NVML wants to hear when an instance is made on this very GPU; another GPU may
    have another id for the same profile, so it makes no profile differ. Memory in MiB; None where
    nobody published it.
    """

    name: str
    slices: int
    size: int
    starts: tuple[int, ...]
    most: int
    memory_mib: int | None = None
    multiprocessors: int | None = None
    id: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A GPU that can do MIG: its memory in MiB and its profiles."""

    memory_mib: int
    profiles: tuple[Profile, ...]

    @property
    def units(self) -> int:
        """How many memory slices the placements count."""
        return max(max(profile.starts) + profile.size for profile in self.profiles)

    @property
    def widest(self) -> Profile:
        """The profile that has most of the GPU."""
        return max(self.profiles, key=lambda profile: (profile.slices, profile.size))

    def profile(self, name: str) -> Profile:
        """Return the profile of this name, for a name that is known to be right.

        Raises:
            KeyError: the board has no such profile.
        """
        found = self.find(name)
        if found is None:
            raise KeyError(name)
        return found

    def find(self, name: str) -> Profile | None:
        """Return the profile that goes by this name, its own or the computed one.

        The name of a partial compute instance finds the GPU instance around it.
        """
        wanted = profiles.gpu_instance(name)
        named = (each for each in self.profiles if each.name == wanted)
        computed = (each for each in self.profiles if self._computed_name(each) == wanted)
        return next(named, None) or next(computed, None)

    def _computed_name(self, profile: Profile) -> str:
        own = profiles.parse(profile.name)
        if own is None or profile.memory_mib is None:
            return profile.name
        memory = profiles.memory_gb(profile.memory_mib, self.memory_mib)
        return str(profiles.ProfileName(own.slices, memory, own.plus, own.minus))

    def mask(self, instances: Iterable[Instance]) -> int:
        """Return the memory slices that instances take, as bits."""
        taken = 0
        for instance in instances:
            taken |= bits(self.profile(instance.profile).size, instance.start)
        return taken


def bits(size: int, start: int) -> int:
    """Return `size` memory slices from `start`, as bits."""
    return ((1 << size) - 1) << start


def ordered(instances: Iterable[Instance]) -> Layout:
    """Return instances as a layout: by start, so that equal layouts are equal values."""
    return tuple(sorted(instances, key=lambda instance: (instance.start, instance.profile)))


def words(counts: Counts) -> str:
    """Return a multiset as people write it, largest first: `3g.40gb + 3g.40gb + 1g.10gb`."""
    parts: list[str] = []
    for name in sorted(counts, key=_largest_first):
        count = counts[name]
        parts += [name] * count if count <= 2 else [f"{count} x {name}"]
    return " + ".join(parts) or "nothing"


def _largest_first(name: str) -> tuple[int, int, str]:
    known = profiles.parse(name)
    return (-known.slices, -known.memory_gb, name) if known else (0, 0, name)
