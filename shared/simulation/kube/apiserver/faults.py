"""What a fault hook may do to a request, as values.

The hook is one async callable that `http` awaits before routing. It may take its time (a delay),
and returns None (nothing more) or one of the faults below.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from shared.simulation.kube.apiserver import queries


@dataclass(frozen=True)
class Call:
    """What a hook sees of a request."""

    method: str
    path: str
    query: Mapping[str, str]

    @property
    def is_watch(self) -> bool:
        """Whether the request is a watch."""
        return self.method == "GET" and queries.is_watch(self.query)


@dataclass(frozen=True)
class Refuse:
    """Answer with this code (429, 500, 503) instead of doing anything."""

    code: int
    retry_after: int | None = None


@dataclass(frozen=True)
class DropAnswer:
    """Do what was asked, then cut the connection: the client cannot know whether it was done."""


@dataclass(frozen=True)
class CutWatch:
    """Serve the watch, and cut its connection after so many events."""

    after_events: int = 0


@dataclass(frozen=True)
class LagWatch:
    """Serve the watch, and hold every batch of events back for so long."""

    seconds: float


Fault = Refuse | DropAnswer | CutWatch | LagWatch
Hook = Callable[[Call], Awaitable[Fault | None]]
