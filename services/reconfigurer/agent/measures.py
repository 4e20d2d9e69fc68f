"""What the agent said last → samples. Pure; `app` shows it to the meters."""

from __future__ import annotations

from collections.abc import Iterator

from shared.contract.messages import Progress
from shared.telemetry import catalogue
from shared.telemetry.catalogue import Sample


def samples(said: Progress | None) -> Iterator[Sample]:
    """Say where the node's change stands; nothing before the first word."""
    if said is not None:
        yield catalogue.CHANGE_PHASE.at(1, phase=said.phase)
