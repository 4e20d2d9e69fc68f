"""Lines that were logged, as a test compares them."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import pytest

from shared.runtime import logs


@dataclass(frozen=True)
class Line:
    """One line: its level, its sentence and what it is about."""

    level: str
    message: str
    about: dict[str, object]


def lines(caplog: pytest.LogCaptureFixture, part: str) -> list[Line]:
    """The lines whose sentence has this part, in order; `caplog` must be at a fitting level."""
    return [
        Line(record.levelname.lower(), record.getMessage(), getattr(record, logs.FIELDS, {}))
        for record in caplog.records
        if part in record.getMessage()
    ]


def everything(caplog: pytest.LogCaptureFixture) -> None:
    """Catch from `info` on, as services log."""
    caplog.set_level(logging.INFO)
