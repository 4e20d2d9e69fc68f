"""What happened at a kubelet, for rehearsals and tests to compare with what they expect.

A record outlives the kubelet's restarts: it is the observer's, not the kubelet's.
"""

from __future__ import annotations

import collections
from dataclasses import dataclass, field
from typing import Any

from shared.simulation.kube.kubelet import device_manager


@dataclass(frozen=True, slots=True)
class Listed:
    """One ListAndWatch message: when (loop time), from which socket, the whole list."""

    at: float
    resource: str
    endpoint: str
    devices: tuple[device_manager.Device, ...]

    @property
    def healthy(self) -> tuple[str, ...]:
        """The ids that can be handed out, in the plugin's order."""
        return tuple(device.id for device in self.devices if device.healthy)


@dataclass(frozen=True, slots=True)
class Rejection:
    """One pod refused at admission."""

    pod: str
    uid: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Call:
    """One call to a plugin during an admission, with the ids as they were sent."""

    method: str
    resource: str
    ids: tuple[str, ...]
    must_include: tuple[str, ...] = ()
    size: int = 0


@dataclass(slots=True)
class Record:
    """All that happened, in order."""

    registrations: collections.Counter[str] = field(default_factory=collections.Counter)
    lists: list[Listed] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    statuses: list[dict[str, Any]] = field(default_factory=list)
