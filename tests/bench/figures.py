"""One form for every figure, and the percentiles that latencies are told in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A value with its unit. `ratio` is against a reference measured in the same run.

    `published` is what a peer's measurement says; it is shown beside ours and never divided by.
    """

    value: float
    unit: str
    ratio: float | None = None
    against: str | None = None
    published: str | None = None

    def form(self) -> dict[str, Any]:
        """The figure as JSON has it."""
        return asdict(self)


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
