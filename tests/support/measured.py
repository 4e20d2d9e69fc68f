"""Meters that remember what they were told, for tests of who counts what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from shared.telemetry import meters
from shared.telemetry.catalogue import Instrument, Sample

Series = tuple[str, tuple[tuple[str, str], ...]]  # name in Prometheus, labels in order


class Remembering(meters.Meters):
    """Counts by series; a label that the table does not know is refused as in earnest."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[Series] = Counter()
        self.times: dict[Series, list[float]] = {}
        self.sources: list[meters.Source] = []

    def count(self, instrument: Instrument, by: int = 1, **labels: str) -> None:
        self.counts[series(instrument.at(by, **labels))] += by

    def time(self, instrument: Instrument, seconds: float, **labels: str) -> None:
        self.times.setdefault(series(instrument.at(seconds, **labels)), []).append(seconds)

    def show(self, source: meters.Source) -> Callable[[], None]:
        self.sources.append(source)
        return lambda: self.sources.remove(source)

    def counted(self, instrument: Instrument, **labels: str) -> int:
        """What a counter stands at."""
        return self.counts[series(instrument.at(0, **labels))]


def series(sample: Sample) -> Series:
    """What names a series."""
    return sample.instrument.exposed, tuple(sorted(sample.labels.items()))
