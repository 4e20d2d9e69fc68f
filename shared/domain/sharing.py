"""Sharing as the product understands it, after a user's text was read.

`shared.sharing.load` makes a `SharingConfig` of a text; the controller publishes it in `intent`;
the advertiser applies it to hardware (`Share`); the allocator turns shares into offers.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from shared.domain.errors import Place, Problem
from shared.domain.health import DEFAULT_RULES, HealthRules

GPU_RESOURCE = "nvidia.com/gpu"


class Strategy(enum.StrEnum):
    """How replicas of one device share it; the values are those of `gpu.sharing-strategy`."""

    NONE = "none"
    TIME_SLICING = "time-slicing"
    MPS = "mps"


class MigStrategy(enum.StrEnum):
    """How MIG devices are named as resources (NVIDIA's flag)."""

    NONE = "none"
    SINGLE = "single"
    MIXED = "mixed"


class AllocationPolicy(enum.StrEnum):
    """Which free slots GetPreferredAllocation proposes."""

    DISTRIBUTED = "distributed"
    PACKED = "packed"
    DISTINCT = "distinct"


class SourceKind(enum.StrEnum):
    """Which rule of selection chose the sharing text of a node."""

    LABEL = "label"
    RULE = "rule"
    KEY = "key"  # the key named in the values
    DEFAULT = "default"  # the key called `default`
    ONLY = "only"
    NONE = "none"  # nothing selected: unshared


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedResource:
    """One entry of `sharing.<strategy>.resources`: this resource's devices get `replicas` slots.

    `name` is the full resource name; `rename` the full name to advertise instead, None to keep
    it; `devices` are texts ("0", "1:0", a UUID), None for all. The places say where the entry and
    its parts stand in the text, for refusals that need the hardware; they never make two
    entries differ.
    """

    name: str
    replicas: int
    rename: str | None = None
    devices: tuple[str, ...] | None = None
    place: Place = field(default=Place(), compare=False)
    replicas_place: Place = field(default=Place(), compare=False)
    device_places: tuple[Place, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingConfig:
    """A normalised sharing text. The default is an unshared node.

    `warnings` are what the writer of the text should know although it is accepted.
    """

    strategy: Strategy = Strategy.NONE
    resources: tuple[SharedResource, ...] = ()
    fail_requests_greater_than_one: bool = False
    mig_strategy: MigStrategy = MigStrategy.NONE
    allocation_policy: AllocationPolicy = AllocationPolicy.DISTRIBUTED
    health: HealthRules = DEFAULT_RULES
    warnings: tuple[Problem, ...] = field(default=(), compare=False)


UNSHARED = SharingConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one device (GPU or MIG device) is to offer; replicas 1 means whole, 0 nothing.

    `parts` are the MIG devices inside a GPU that is offered itself (MIG strategy none).
    """

    uuid: str
    gpu_uuid: str
    gpu_index: int
    resource: str
    replicas: int
    strategy: Strategy = Strategy.NONE
    renamed: bool = False
    fail_requests_greater_than_one: bool = False
    policy: AllocationPolicy = AllocationPolicy.DISTRIBUTED
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What one device offers of one resource: `slots` are listed, `retiring` only finish."""

    uuid: str
    gpu_uuid: str
    gpu_index: int
    resource: str
    slots: tuple[str, ...]
    retiring: tuple[str, ...] = ()
