"""Generations order everything the controller wants: first by leader term, then by counter."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Generation:
    """`term` grows with each new leader, `counter` with each change the leader makes."""

    term: int = 0
    counter: int = 0

    def __str__(self) -> str:
        return f"{self.term}.{self.counter}"

    def next(self) -> Generation:
        """The generation of the same leader's next change."""
        return Generation(self.term, self.counter + 1)

    @classmethod
    def parse(cls, text: str) -> Generation:
        """Read `term.counter`, as node annotations hold it.

        Raises:
            ValueError: the text is not two whole numbers with a dot between.
        """
        term, _, counter = text.partition(".")
        return cls(int(term), int(counter))


NONE = Generation()
