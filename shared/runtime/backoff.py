"""How long to wait before trying again: doubling, bounded, with jitter so that fleets spread."""

from __future__ import annotations

import random
from collections.abc import Callable


class Backoff:
    """Waits double from `first` to `most` seconds; jitter takes up to half of each."""

    def __init__(
        self,
        first: float = 0.1,
        most: float = 5.0,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._first = first
        self._most = most
        self._jitter = jitter
        self._tries = 0

    def next(self) -> float:
        """Seconds to wait before the next try."""
        whole = min(self._most, self._first * float(2 ** min(self._tries, 32)))
        self._tries += 1
        return whole * (0.5 + self._jitter() / 2)

    def reset(self) -> None:
        """Start again from `first`: a try has succeeded."""
        self._tries = 0
