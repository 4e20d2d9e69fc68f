"""The labels of GPU Feature Discovery that tell of hardware and driver, whatever is shared.

`labels` puts them beside its own; the controller adds the versions, which a plan does not know.
No inventory tells the machine's name or the class of a PCI device, so their labels are left alone.
"""

from __future__ import annotations

import dataclasses
import re

from shared.domain.gpu import Engines, Gpu, MigDevice
from shared.domain.sharing import GPU_RESOURCE, MigStrategy, Share, Strategy

MIG_CAPABLE = "nvidia.com/mig.capable"
MPS_CAPABLE = "nvidia.com/mps.capable"
_SIZES = ("multiprocessors", "slices.gi", "slices.ci")
_ENGINES = tuple(f"engines.{each.name}" for each in dataclasses.fields(Engines))
PART_SUFFIXES = (*_SIZES, *_ENGINES)
_ARCHITECTURE = tuple(
    f"{GPU_RESOURCE}.{name}" for name in ("family", "compute.major", "compute.minor")
)
_CUDA = "nvidia.com/cuda."
# The names without "version" are the older ones of the same values.
_DRIVER = {"driver": ("major", "minor", "rev"), "driver-version": ("major", "minor", "revision")}
_RUNTIME = ("runtime", "runtime-version")
_FULL = (f"{_CUDA}driver-version.full", f"{_CUDA}runtime-version.full")
_VERSION = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})(?:\.([0-9]{1,9}))?")
NAMES = frozenset(
    (
        MIG_CAPABLE,
        MPS_CAPABLE,
        *_ARCHITECTURE,
        *_FULL,
        *(f"{_CUDA}{kind}.{part}" for kind, parts in _DRIVER.items() for part in parts),
        *(f"{_CUDA}{kind}.{part}" for kind in _RUNTIME for part in ("major", "minor")),
        *(f"{GPU_RESOURCE}.{suffix}" for suffix in PART_SUFFIXES),
    )
)
# From which compute capability on a family begins; the last that is reached counts.
_FAMILIES = (
    ((5, 0), "maxwell"),
    ((6, 0), "pascal"),
    ((7, 0), "volta"),
    ((7, 5), "turing"),
    ((8, 0), "ampere"),
    ((8, 9), "ada-lovelace"),
    ((9, 0), "hopper"),
    ((10, 0), "blackwell"),
    ((11, 0), "undefined"),
    ((12, 0), "blackwell"),
    ((13, 0), "rubin"),
    ((14, 0), "undefined"),
)


def versions(driver: str, cuda: tuple[int, int]) -> dict[str, str]:
    """Return the labels of the driver and of the newest CUDA that it runs; none of an odd one."""
    read = _VERSION.fullmatch(driver)
    if read is None:
        return {}
    numbers = [number or "" for number in read.groups()]
    found = {
        f"{_CUDA}{kind}.{part}": number
        for kind, parts in _DRIVER.items()
        for part, number in zip(parts, numbers, strict=True)
    }
    for kind in _RUNTIME:
        found |= {f"{_CUDA}{kind}.major": str(cuda[0]), f"{_CUDA}{kind}.minor": str(cuda[1])}
    return found | dict(zip(_FULL, (driver, f"{cuda[0]}.{cuda[1]}"), strict=True))


def of_node(
    gpus: tuple[Gpu, ...], shares: tuple[Share, ...], strategy: MigStrategy
) -> dict[str, str]:
    """Return what a node's GPUs can do, and the architecture of its first whole one.

    A GPU in MIG mode under strategy none is told of without its architecture, as by NVIDIA.
    """
    whole = [gpu for gpu in gpus if not gpu.mig_enabled]
    by_mps = any(share.strategy is Strategy.MPS for share in shares)
    found = {
        MIG_CAPABLE: _word(any(gpu.mig_mode is not None for gpu in gpus)),
        MPS_CAPABLE: _word(by_mps and len(whole) == len(gpus)),
    }
    if whole or strategy is not MigStrategy.NONE:
        found |= _architecture((*whole, *gpus)[0].compute_capability)
    return found


def of_part(resource: str, mig: MigDevice) -> dict[str, str]:
    """Return the size and the engines of a MIG device that stands for its resource."""
    values = dict(
        zip(_SIZES, (mig.multiprocessors, mig.gpu_slices, mig.compute_slices), strict=True)
    )
    if mig.engines is not None:
        values |= zip(_ENGINES, dataclasses.astuple(mig.engines), strict=True)
    return {f"{resource}.{suffix}": str(value) for suffix, value in values.items()}


def _architecture(capability: tuple[int, int]) -> dict[str, str]:
    reached = [family for least, family in _FAMILIES if capability >= least]
    values = (reached[-1] if reached else "undefined", *map(str, capability))
    return dict(zip(_ARCHITECTURE, values, strict=True))


def _word(true: bool) -> str:
    return "true" if true else "false"
