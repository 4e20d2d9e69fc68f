"""What the stream `facts` holds: what happened on a node, told once."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from shared.contract.messages import Stamp
from shared.domain.slots import Holder


class FactKind(enum.StrEnum):
    """What the stream `facts` tells."""

    GRANTED = "granted"
    RELEASED = "released"
    CONFLICT = "conflict"
    HEALTH = "health"
    STEP = "step"
    REFUSED = "refused"
    REGISTERED = "registered"
    TAKEN_OVER = "taken_over"
    OVER_USE = "over_use"  # a pod takes more memory than its slots stand for


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something that happened on a node; `id` makes publishing it twice harmless."""

    stamp: Stamp
    id: str
    kind: FactKind
    at_ns: int
    sentence: str
    gpu_uuid: str = ""
    resource: str = ""
    slots: tuple[str, ...] = ()
    holders: tuple[Holder, ...] = ()
