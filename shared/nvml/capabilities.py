"""The device nodes that guard MIG instances: a container needs its instance's two to use it.

The driver lists a number for every instance that could be, once when it is loaded; so the list
is read once. Whoever passes device nodes to containers asks here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_LIST = Path("driver/nvidia-caps/mig-minors")
_LINE = re.compile(r"gpu(\d+)/gi(\d+)/(?:ci(\d+)/)?access (\d+)")

Minors = Mapping[tuple[int, int, int | None], int]  # GPU's minor, GPU and compute instance


def read(proc: Path = Path("/proc")) -> Minors:
    """Read the driver's list; it is empty where no driver is loaded. Blocks."""
    try:
        text = (proc / _LIST).read_text("utf-8")
    except OSError:
        return {}
    return {
        (int(gpu), int(instance), int(compute) if compute else None): int(minor)
        for gpu, instance, compute, minor in _LINE.findall(text)
    }


def nodes(minors: Minors, gpu: int, instance: int, compute: int) -> tuple[str, ...]:
    """Return the paths of the nodes that guard a MIG device, as far as the driver lists them."""
    wanted = ((gpu, instance, None), (gpu, instance, compute))
    return tuple(f"/dev/nvidia-caps/nvidia-cap{minors[key]}" for key in wanted if key in minors)
