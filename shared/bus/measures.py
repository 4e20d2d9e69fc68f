"""A service's place on the bus → samples: connected or not, what waits, what was lost. Pure.

Each `app.py` shows it to its meters, with the writers that it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from shared.telemetry import catalogue
from shared.telemetry.catalogue import Sample


class Place(Protocol):
    """What is asked of the connection (shared.bus.connection.Bus)."""

    @property
    def connected(self) -> bool:
        """Whether the connection stands."""

    @property
    def reconnects(self) -> int:
        """How many connections came after the first."""


class Writer(Protocol):
    """What is asked of a log's writer (shared.bus.logs)."""

    @property
    def waiting(self) -> int:
        """How many entries wait."""

    @property
    def dropped(self) -> int:
        """How many entries were lost."""


def samples(place: Place, writers: Mapping[str, Writer]) -> Iterator[Sample]:
    """Say how it stands; `writers` by the name of what they write."""
    yield catalogue.BUS_CONNECTED.at(place.connected)
    yield catalogue.BUS_RECONNECTS.at(place.reconnects)
    for name, writer in writers.items():
        yield catalogue.QUEUE_DEPTH.at(writer.waiting, queue=name)
        yield catalogue.DROPPED.at(writer.dropped, what=name)
