"""A text of mig-parted as values, and what it comes to for one GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.domain.errors import Place, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """`<profile>: <count>` under `mig-devices`, with its place in the text."""

    profile: str
    count: int
    place: Place = field(default=Place(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One entry under a name: what the GPUs that it matches are to be.

    `devices` are indexes on the node, None for all; `filters` are PCI ids, `(device << 16) |
    vendor`, none for all. A GPU has to meet both.
    """

    path: str
    enabled: bool
    shares: tuple[Share, ...] = ()
    devices: tuple[int, ...] | None = None
    filters: tuple[int, ...] = ()
    place: Place = field(default=Place(), compare=False)

    def matches(self, index: int, pci_device: int) -> bool:
        """Whether the row speaks of a GPU."""
        listed = self.devices is None or index in self.devices
        return listed and (not self.filters or pci_device in self.filters)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeometryConfig:
    """All names of a text; of the rows that match a GPU the last one counts."""

    names: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)
    warnings: tuple[Problem, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What one GPU is to be: MIG mode, and a multiset by the names of its own board, sorted."""

    enabled: bool
    counts: tuple[tuple[str, int], ...] = ()
