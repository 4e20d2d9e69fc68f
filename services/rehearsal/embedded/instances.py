"""MIG instances as the simulated hardware has them → what `geometry` and `kept` compare with.

The owner of the GPUs is asked, not a service: what is remembered is what there is.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

from services.rehearsal.embedded.node import EmbeddedNode

KEYS = frozenset(("geometry", "kept"))
Profiles = Mapping[str, str]  # profile by UUID
Instances = Mapping[str, Mapping[str, Profiles]]  # by node and GPU index


async def of_node(node: EmbeddedNode) -> dict[str, Profiles]:
    """The instances of each GPU; nothing while the owner of the GPUs is away."""
    with contextlib.suppress(OSError):
        held = await node.hardware.describe()
        return {
            str(gpu["index"]): {each["uuid"]: each["profile"] for each in gpu["instances"]}
            for gpu in held["gpus"]
        }
    return {}


async def observe(node: EmbeddedNode, remembered: Mapping[str, Profiles]) -> dict[str, Any]:
    """The values of both conditions now."""
    now = await of_node(node)
    return {
        "geometry": {gpu: dict(Counter(held.values())) for gpu, held in now.items()},
        "kept": {gpu: len(held.keys() & remembered.get(gpu, {})) for gpu, held in now.items()},
    }
