"""What is wrong with a text, gathered while it is read, so that one refusal tells everything."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from shared.domain.errors import Place, Problem, RefusedError

_MOST = 100  # problems in one refusal: it must fit an Event and a person's patience

# What to write instead; one that takes a search is searched for only where it is shown, for a file
# of another kind may hold ten thousand mistakes.
Hint = str | Callable[[], str]


@dataclass(slots=True)
class Findings:
    """Problems that refuse the text, and warnings that do not."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    _searches: dict[int, Callable[[], str]] = field(default_factory=dict)  # by number of problem

    def add(self, place: Place, path: str, message: str, suggestion: Hint = "") -> None:
        """Note a mistake and go on reading."""
        said = suggestion if isinstance(suggestion, str) else ""
        if not isinstance(suggestion, str):
            self._searches[len(self.problems)] = suggestion
        self.problems.append(Problem(path, place.line, place.column, message, said))

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
        numbers = sorted(range(len(self.problems)), key=self._place)
        found = [self._explained(number) for number in numbers[:_MOST]]
        if len(numbers) > _MOST:
            last = found[-1]
            rest = f"and {len(numbers) - _MOST} more problems that are not listed"
            found.append(Problem("", last.line, last.column, rest))
        return tuple(found)

    def _place(self, number: int) -> tuple[int, int]:
        problem = self.problems[number]
        return problem.line, problem.column

    def _explained(self, number: int) -> Problem:
        problem, search = self.problems[number], self._searches.get(number)
        return problem if search is None else dataclasses.replace(problem, suggestion=search())
