"""What is wrong with a text, gathered while it is read, so that one refusal tells everything."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

from shared.domain.errors import Place, Problem, RefusedError

_MOST = 100  # problems in one refusal: it must fit an Event and a person's patience


@dataclass(slots=True)
class Findings:
    """Problems that refuse the text, and warnings that do not."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def add(self, place: Place, path: str, message: str, suggestion: str = "") -> None:
        """Note a mistake and go on reading."""
        self.problems.append(Problem(path, place.line, place.column, message, suggestion))

    def warn(self, place: Place, path: str, message: str, suggestion: str = "") -> None:
        """Note something that the writer should know although it is accepted."""
        self.warnings.append(Problem(path, place.line, place.column, message, suggestion))

    def stop(self, place: Place, path: str, message: str, suggestion: str = "") -> NoReturn:
        """Refuse at once: what follows could not be read sensibly."""
        self.add(place, path, message, suggestion)
        raise RefusedError(self._in_reading_order())

    def settle(self) -> None:
        """Refuse if anything was found."""
        if self.problems:
            raise RefusedError(self._in_reading_order())

    def _in_reading_order(self) -> tuple[Problem, ...]:
        found = sorted(self.problems, key=lambda problem: (problem.line, problem.column))
        if len(found) > _MOST:
            last = found[_MOST - 1]
            rest = f"and {len(found) - _MOST} more problems that are not listed"
            found = [*found[:_MOST], Problem("", last.line, last.column, rest)]
        return tuple(found)
