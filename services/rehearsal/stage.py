"""What a story is played on: the port between the engine and a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from services.rehearsal.story import Act, Condition


class StageError(Exception):
    """The stage could not do what a step asks; the text is the sentence that the step shows."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The values under a condition's keys now, and what else is worth showing with them."""

    values: Mapping[str, Any]
    shown: Mapping[str, Any]


class Stage(Protocol):
    """A cluster that can be acted on and looked at."""

    async def act(self, action: Act) -> None:
        """Do it; StageError says why it cannot be done."""

    async def observe(self, condition: Condition, moments: Mapping[str, int]) -> Observation:
        """Look at what the condition is about; `moments` maps step names and kinds to ns."""

    def mark(self) -> None:
        """Count from here what is counted since the last step that acts."""

    async def remember(self) -> None:
        """Compare from here on with the MIG instances that there are now."""
