"""Where services count, time and show what they know; this half costs nothing and imports nothing.

`Meters` forgets all it is told: a service without a reader of metrics works with it and has no
branches. `shared.telemetry.otel_meters` is the half that keeps them; `setup` chooses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from shared.runtime.health import Page
from shared.telemetry.catalogue import Instrument, Sample

Source = Callable[[], Iterable[Sample]]


class Tally:
    """A number that several threads add to."""

    def __init__(self) -> None:
        self.count = 0
        self._turn = threading.Lock()

    def add(self, number: int) -> None:
        """Add to it."""
        with self._turn:
            self.count += number


class Meters:
    """Takes measurements by the constants of `shared.telemetry.catalogue`; none of it waits.

    `lost` counts what was not taken by the OTLP receiver, spans and reports of metrics alike.
    """

    def __init__(self) -> None:
        self.lost = Tally()

    @property
    def pages(self) -> Mapping[str, Page]:
        """What the health port is to serve besides, by path."""
        return {}

    def count(self, instrument: Instrument, by: int = 1, **labels: str) -> None:
        """Add to a counter."""

    def time(self, instrument: Instrument, seconds: float, **labels: str) -> None:
        """Add a duration to a histogram."""

    def show(self, source: Source) -> Callable[[], None]:
        """Ask `source` for gauges, and for counters that others keep, at each reading.

        It is called in a thread of the reader's: it may only look at values that nobody changes
        in place. A series that it no longer gives is gone with the next reading; what comes back
        is called to ask it no more.
        """
        return _hidden

    def close(self) -> None:
        """Send what is left, where somebody is to be sent to; blocks, so call it off the loop."""


def _hidden() -> None:
    """Nothing was shown."""


NOTHING = Meters()
