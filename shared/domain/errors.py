"""What is wrong with a text or a request, in the one form that every surface shows.

`plan`, Events, node conditions, `status` and spans print the same five fields.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A 1-based line and column of a text; 0 where there is no text."""

    line: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: where it stands (path, 1-based line and column), what it is, what to write."""

    path: str
    line: int
    column: int
    message: str
    suggestion: str = ""

    def sentence(self) -> str:
        """One line for Events, logs and tables."""
        place = f"line {self.line}, column {self.column}" if self.line else ""
        where = ", ".join(part for part in (self.path, place) if part)
        hint = f" ({self.suggestion})" if self.suggestion else ""
        return f"{where}: {self.message}{hint}" if where else f"{self.message}{hint}"


class RefusedError(Exception):
    """A text or a request was refused; `problems` says all that was found, in reading order."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(problem.sentence() for problem in problems))
        self.problems = problems
