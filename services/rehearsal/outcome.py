"""What came of a story: one result a step, in the form of `slicewire rehearse -o json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from services.rehearsal.story import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One step played: whether all was as expected, how long it took, what was seen."""

    step: Step
    ok: bool
    seconds: float
    seen: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""

    def form(self) -> dict[str, Any]:
        """The result as JSON has it."""
        return {
            "line": self.step.line,
            "step": self.step.action.words(),
            "ok": self.ok,
            "seconds": round(self.seconds, 3),
            "seen": dict(self.seen),
            "why": self.why,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A story played to its end, or to the first step that was not as expected."""

    file: str
    ok: bool
    seconds: float
    results: tuple[Result, ...]

    def form(self) -> dict[str, Any]:
        """The outcome as JSON has it."""
        return {
            "file": self.file,
            "ok": self.ok,
            "seconds": round(self.seconds, 3),
            "steps": [result.form() for result in self.results],
        }
