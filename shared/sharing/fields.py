"""Typed reading of one value of the tree: a right value comes back, a wrong one is explained.

A `Field` is a value, its path and the findings it reports to. Every reader returns None after it
has reported, so that the caller goes on and one refusal tells all.
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from shared.domain.errors import Place
from shared.sharing import homes, scalars, suggest, tree
from shared.sharing.findings import Findings, Hint

E = TypeVar("E", bound=enum.StrEnum)


@dataclass(frozen=True, slots=True)
class Field:
    """One value where it stands; `key_place` is that of its key, for mistakes of placement."""

    path: str
    node: tree.Node
    findings: Findings
    key_place: Place

    @property
    def place(self) -> Place:
        """Where the value stands."""
        return self.node.place

    def report(self, message: str, suggestion: Hint = "") -> None:
        """Note a mistake in this value."""
        self.findings.add(self.place, self.path, message, suggestion)

    def report_key(self, message: str, suggestion: Hint = "") -> None:
        """Note that this value should not stand here at all."""
        self.findings.add(self.key_place, self.path, message, suggestion)

    @property
    def is_null(self) -> bool:
        """Whether nothing (or null) was written."""
        return isinstance(self.node, tree.Scalar) and self._value() is None

    def mapping(self, home: str) -> dict[str, Field]:
        """Return the known keys of a mapping by `homes.KEYS[home]`; report every other key."""
        return self.keys(homes.KEYS[home], lambda name: homes.hint(name, home))

    def keys(self, known: Collection[str], hint: Callable[[str], str]) -> dict[str, Field]:
        """Return the known keys of a mapping; report every other one with what `hint` says."""
        found: dict[str, Field] = {}
        for name, value in self.entries(f"a mapping with {suggest.listed(known)}").items():
            if name in known:
                found[name] = value
            else:
                message = f'unknown key "{suggest.shorten(name)}", accepted here:'
                search = functools.partial(hint, name)
                value.report_key(f"{message} {suggest.listed(known)}", search)
        return found

    def entries(self, what: str) -> dict[str, Field]:
        """Return what stands under each key of a mapping whose keys are the writer's own."""
        if not isinstance(self.node, tree.Mapping):
            self.report(f"found {self.found()}, accepted is {what}")
            return {}
        return {
            name: Field(tree.below(self.path, name), entry.value, self.findings, entry.place)
            for name, entry in self.node.entries.items()
        }

    def items(self, what: str) -> tuple[Field, ...] | None:
        """Return the items of a list of `what`."""
        if not isinstance(self.node, tree.Sequence):
            self.report(f"found {self.found()}, accepted is a list of {what}")
            return None
        return tuple(
            Field(f"{self.path}[{index}]", item, self.findings, item.place)
            for index, item in enumerate(self.node.items)
        )

    def integer(self, least: float) -> int | None:
        """Read a whole number; `4.0` is 4, a quoted number and a leading zero are refused."""
        value = self._value()
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            return value
        text = self.node.text if isinstance(self.node, tree.Scalar) else ""
        spelling = scalars.number_spelling(text) if isinstance(value, str) else ""
        hint = f"write {spelling}" if spelling and int(spelling) >= least else ""
        start = f" from {least} up" if math.isfinite(least) else ""
        self.report(f"found {self.found()}, accepted is a whole number{start}", hint)
        return None

    def boolean(self) -> bool | None:
        """Read `true` or `false`; `yes`, `on` and quoted forms are refused."""
        value = self._value()
        if isinstance(value, bool):
            return value
        text = self.node.text if isinstance(self.node, tree.Scalar) else ""
        spelling = scalars.switch_spelling(text)
        self.report(
            f"found {self.found()}, accepted is true or false",
            f"write {spelling}" if spelling else "",
        )
        return None

    def text(self, what: str = "a text") -> str | None:
        """Read a text that is not empty; a bare number or `true` must be quoted to be one."""
        value = self._value()
        if isinstance(value, str) and value:
            return value
        hint = ""
        if isinstance(value, (bool, int, float)) and isinstance(self.node, tree.Scalar):
            hint = f'write "{suggest.shorten(self.node.text)}" if that is the text'
        self.report(f"found {self.found()}, accepted is {what}", hint)
        return None

    def choice(self, options: Collection[str]) -> str | None:
        """Read one of a few words."""
        value = self._value()
        if isinstance(value, str) and value in options:
            return value
        near = functools.partial(suggest.did_you_mean, str(value), options)
        hint = near if isinstance(value, str) else ""
        self.report(f"found {self.found()}, accepted: {suggest.listed(options)}", hint)
        return None

    def member(self, kind: type[E]) -> E | None:
        """Read a member of an enum by its value."""
        word = self.choice([member.value for member in kind])
        return None if word is None else kind(word)

    def found(self) -> str:
        """Say what stands here, for the sentence of a refusal."""
        if isinstance(self.node, tree.Mapping):
            return "a mapping"
        if isinstance(self.node, tree.Sequence):
            return "a list"
        value = self._value()
        if value is None:
            return "nothing"
        shown = suggest.shorten(self.node.text)
        endless = self.node.plain and scalars.is_endless(self.node.text)
        return f'the text "{shown}"' if isinstance(value, str) and not endless else shown

    def _value(self) -> scalars.Value:
        if not isinstance(self.node, tree.Scalar):
            return None
        return scalars.resolve(self.node.text, plain=self.node.plain)
