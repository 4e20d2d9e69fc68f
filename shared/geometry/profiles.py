"""Names of MIG profiles: `[<C>c.]<G>g.<mem>gb[+attribute][-attribute]`, read and written.

A driver names its profiles itself; NVIDIA's Kubernetes components compute the memory in the name
instead, so one profile may go by two names (`3g.39gb` for an old driver, `3g.40gb` for them).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass

MEDIA = "me"  # the media extensions: the one JPEG decoder and optical flow unit of some boards
ALL_MEDIA = "me.all"
_ATTRIBUTE = r"[a-z][a-z0-9]*(?:\.[a-z0-9]+)*"
_FORM = re.compile(
    r"(?:(?P<compute>[1-9][0-9]?)c\.)?(?P<slices>[1-9][0-9]?)g\.(?P<memory>[0-9]{1,5})gb"
    rf"(?:\+(?P<plus>{_ATTRIBUTE}))?(?:-(?P<minus>{_ATTRIBUTE}))?"
)


@dataclass(frozen=True, slots=True)
class ProfileName:
    """What a name says. `compute` is the width of a compute instance that has less than all."""

    slices: int
    memory_gb: int
    plus: str = ""
    minus: str = ""
    compute: int | None = None

    def __str__(self) -> str:
        part = "" if self.compute is None else f"{self.compute}c."
        plus = f"+{self.plus}" if self.plus else ""
        minus = f"-{self.minus}" if self.minus else ""
        return f"{part}{self.slices}g.{self.memory_gb}gb{plus}{minus}"


@functools.lru_cache(maxsize=512)
def parse(name: str) -> ProfileName | None:
    """Read a name; None where it has not the form of one."""
    found = _FORM.fullmatch(name)
    if found is None:
        return None
    slices = int(found["slices"])
    compute = None if found["compute"] is None else int(found["compute"])
    if compute is not None and compute > slices:
        return None
    return ProfileName(
        slices=slices,
        memory_gb=int(found["memory"]),
        plus=found["plus"] or "",
        minus=found["minus"] or "",
        compute=None if compute == slices else compute,
    )


def gpu_instance(name: str) -> str:
    """Return the name of the GPU instance around `1c.3g.20gb`; any other name as it is."""
    return re.sub(r"^[0-9]+c\.", "", name)


def dotted(name: str) -> str:
    """Return a name as resources and names of configs have it: `1g.10gb+me` is `1g.10gb.me`."""
    return name.replace("+", ".")


def spelling(text: str) -> str:
    """Return the name that the writer of `text` probably meant, "" if there is none."""
    name = text.strip().lower().removeprefix("nvidia.com/").removeprefix("mig-")
    name = re.sub(r"gb\.(?=[a-z])", "gb+", name)
    return name if parse(name) else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the one that is nearest in slices, then in attributes, then in memory, "" if none is.

    Who writes 1g.5gb for a GPU of twice the memory means 1g.10gb.
    """
    wanted = parse(name)
    if wanted is None:
        return ""

    def distance(pair: tuple[str, ProfileName]) -> tuple[int, bool, int, str]:
        each, found = pair
        other = (found.plus, found.minus) != (wanted.plus, wanted.minus)
        slices, memory = found.slices - wanted.slices, found.memory_gb - wanted.memory_gb
        return abs(slices), other, abs(memory), each

    parsed = ((each, found) for each in known if (found := parse(each)) is not None)
    return min(parsed, key=distance, default=("",))[0]


def memory_gb(memory_mib: int, of_mib: int) -> int:
    """Compute the memory in a name as NVIDIA's components do: eighths of the GPU, in whole GB."""
    eighths = -(-memory_mib * 8 // of_mib)
    gib = -(-of_mib // 1024)
    return (eighths * gib + 4) // 8  # halves are rounded up
