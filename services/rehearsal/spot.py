"""One value of a story's YAML where it stands; wrong ones are explained and reading goes on.

Built on the positioned tree of `shared.sharing`, so texts of stories are refused with the same
sentences as sharing texts. Every reader returns something harmless after it has reported; the
story is thrown away then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass
from typing import Any

from shared.domain.errors import Place
from shared.sharing import fields, findings, scalars, suggest, tree

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")


@dataclass(frozen=True, slots=True)
class Spot:
    """A value with its path; readers report to the findings that all spots of a text share."""

    field: fields.Field

    @classmethod
    def root(cls, node: tree.Node, found: findings.Findings) -> Spot:
        """The whole text."""
        return cls(fields.Field("", node, found, node.place))

    @property
    def place(self) -> Place:
        """Where the value begins."""
        return self.field.place

    @property
    def is_null(self) -> bool:
        """Whether nothing (or null) stands here."""
        return self.field.is_null

    @property
    def is_list(self) -> bool:
        """Whether a list stands here."""
        return isinstance(self.field.node, tree.Sequence)

    @property
    def is_empty_list(self) -> bool:
        """Whether a list without anything in it stands here."""
        node = self.field.node
        return isinstance(node, tree.Sequence) and not node.items

    @property
    def is_map(self) -> bool:
        """Whether a mapping stands here."""
        return isinstance(self.field.node, tree.Mapping)

    @property
    def keys(self) -> Set[str]:
        """The keys of a mapping, nothing of anything else."""
        node = self.field.node
        return node.entries.keys() if isinstance(node, tree.Mapping) else frozenset()

    @property
    def is_text(self) -> bool:
        """Whether a text stands here."""
        return isinstance(self.plain(), str)

    @property
    def clean(self) -> bool:
        """Whether nothing has been found wrong in the whole text so far."""
        return not self.field.findings.problems

    def refuse(self, message: str, suggestion: str = "") -> None:
        """Report a mistake in this value."""
        self.field.report(message, suggestion)

    def mapping(self, known: Collection[str] | None = None) -> dict[str, Spot]:
        """Read a mapping; keys outside `known` are refused, None takes every key."""
        node = self.field.node
        if not isinstance(node, tree.Mapping):
            self.refuse(f"found {self.field.found()}, accepted is a mapping{_with(known)}")
            return {}
        read: dict[str, Spot] = {}
        for name, entry in node.entries.items():
            path = tree.below(self.field.path, name)
            spot = Spot(fields.Field(path, entry.value, self.field.findings, entry.place))
            if known is None or name in known:
                read[name] = spot
            else:
                spot.refuse_key(name, known)
        return read

    def below(self, path: str) -> Spot:
        """The value under a path like `drain.cordon`, or the last one on the way that is there."""
        for name, spot in self.mapping().items() if self.is_map else ():
            if path == name or path.startswith(f"{name}."):
                return spot.below(path[len(name) + 1 :])
        return self

    def refuse_key(self, name: str, known: Collection[str]) -> None:
        """Report that this value's key has no place here."""
        hint = suggest.did_you_mean(name, known)
        what = f'unknown key "{suggest.shorten(name)}", accepted here:'
        self.field.report_key(f"{what} {suggest.listed(known)}", hint)

    def items(self) -> tuple[Spot, ...]:
        """Read a list."""
        found = self.field.items("values")
        return tuple(Spot(each) for each in found or ())

    def whole(self, *, least: int) -> int:
        """Read a whole number from `least`."""
        value = self.field.integer(least)
        return least if value is None else value

    def truth(self) -> bool:
        """Read `true` or `false`."""
        return bool(self.field.boolean())

    def text(self, what: str = "a text") -> str:
        """Read a text that is not empty."""
        return self.field.text(what) or ""

    def written(self) -> str:
        """Read a text that may be empty, as the keys of a ConfigMap hold it."""
        value = self.plain()
        return value if isinstance(value, str) else self.text("a text (write `|-` after the key)")

    def word(self) -> str:
        """Read a text as it is written: where texts alone can stand, a bare 4 or true is one."""
        node = self.field.node
        return node.text if isinstance(node, tree.Scalar) and not self.is_null else self.text()

    def pattern(self) -> str:
        """Read a text as it is written; after `~` it must be a regular expression."""
        text = self.word()
        if text.startswith("~"):
            try:
                re.compile(text[1:])
            except re.error as error:
                self.refuse(f"not a regular expression: {error}", "write the text without ~")
        return text

    def choice(
        self, options: Collection[str], what: str, near: Callable[[str], str] | None = None
    ) -> str:
        """Read one of the names that `what` can be here; `near` suggests one for another."""
        text = self.text()
        if text and text not in options:
            hint = near(text) if near else suggest.did_you_mean(text, options)
            listed = suggest.listed(options)
            self.refuse(f'there is no {what} "{suggest.shorten(text)}" here, only {listed}', hint)
        return text

    def seconds(self) -> float:
        """Read a duration: `10s`, `500ms`, `1m30s`."""
        value = self.plain()
        found = _DURATION.fullmatch(value) if isinstance(value, str) and value else None
        if found is None:
            hint = f"write {value}s" if isinstance(value, int | float) else "write 10s or 500ms"
            self.refuse(f"found {self.field.found()}, accepted is a duration", hint)
            return 0.0
        minutes, seconds, milliseconds = (float(each or 0) for each in found.groups())
        return minutes * 60 + seconds + milliseconds / 1000

    def plain(self) -> Any:
        """The value as Python has it, whatever it is."""
        return _plain(self.field.node)


def _plain(node: tree.Node) -> Any:
    if isinstance(node, tree.Sequence):
        return [_plain(item) for item in node.items]
    if isinstance(node, tree.Mapping):
        return {name: _plain(entry.value) for name, entry in node.entries.items()}
    return scalars.resolve(node.text, plain=node.plain)


def _with(known: Collection[str] | None) -> str:
    return f" with {suggest.listed(known)}" if known else ""


def required(spot: Spot, parts: Mapping[str, Spot], *names: str) -> bool:
    """Whether all keys are there; each one that is not is reported."""
    missing = [name for name in names if name not in parts]
    for name in missing:
        spot.refuse(f'the key "{name}" is missing')
    return not missing
