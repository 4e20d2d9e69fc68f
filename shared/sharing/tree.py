"""YAML text to a tree of nodes that know where they stand; values are read later, by `fields`.

Composed from libyaml's events by hand, because the loaders of PyYAML drop positions of aliases,
let the last of two equal keys win, and follow aliases and nesting without a bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from shared.domain.errors import Place
from shared.sharing import suggest
from shared.sharing.findings import Findings

MOST_BYTES = 1024 * 1024  # what a ConfigMap can hold
MOST_NODES = 50_000  # counted with every alias followed
MOST_DEPTH = 32

_UNPRINTABLE = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAB_INDENT = re.compile(r"^ *\t", re.MULTILINE)
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # what ends a line for libyaml
_MERGE = "<<"


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value as written; `plain` means neither quoted nor a block, `literal` a `|` block."""

    place: Place
    text: str
    plain: bool
    literal: bool = False
    size: int = 1


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    place: Place
    items: tuple[Node, ...]
    size: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of a mapping, where it stands, and its value."""

    place: Place
    value: Node


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys and values in the order of the text, merge keys already followed."""

    place: Place
    entries: dict[str, Entry]
    size: int


Node = Scalar | Sequence | Mapping


def documents(text: str, findings: Findings) -> tuple[Node, ...]:
    """Return the documents of a text that hold anything; mistakes of form go to `findings`.

    Raises:
        RefusedError: the text is not YAML, too large, too deep, or grows without bound.
    """
    body = text.removeprefix("\ufeff")
    _check_characters(body, findings)
    try:
        composer = _Composer(iter(yaml.parse(body, Loader=yaml.CSafeLoader)), findings)
        found = tuple(composer.documents())
    except yaml.MarkedYAMLError as error:
        _refuse_syntax(error, body, findings)
    return tuple(node for node in found if not _is_empty(node))


def lines(text: str) -> list[str]:
    """Return the lines of a text as its places count them."""
    return _BREAK.split(text)


def below(path: str, key: str) -> str:
    """Return the path of `key` inside the mapping at `path`."""
    name = suggest.shorten(key)
    return f"{path}.{name}" if path else name


@dataclass(slots=True)
class _Composer:
    """Takes events in order and gives nodes; anchors live as long as their document."""

    events: Iterator[Any]  # yaml.Event, whose kinds share no typed attributes
    findings: Findings
    anchors: dict[str, Node] = field(default_factory=dict)

    def documents(self) -> Iterator[Node]:
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                self.anchors = {}
                yield self._node(next(self.events), "", 0)

    def _node(self, event: Any, path: str, depth: int) -> Node:
        place = _place(event)
        if depth > MOST_DEPTH:
            self.findings.stop(place, "", f"nested deeper than {MOST_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, place, path)
        tag = getattr(event, "tag", None)
        if tag is not None:
            message = f"the tag {suggest.shorten(tag)} is not read here"
            self.findings.add(place, path, message, "leave the tag out")
        node = self._untagged(event, place, path, depth)
        if node.size > MOST_NODES:
            message = f"more than {MOST_NODES} values, counted with every alias followed"
            self.findings.stop(place, path, message)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def _untagged(self, event: Any, place: Place, path: str, depth: int) -> Node:
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(place, path, depth)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(place, path, depth)
        return Scalar(place, event.value, event.style in (None, ""), event.style == "|")

    def _alias(self, event: Any, place: Place, path: str) -> Node:
        if event.anchor not in self.anchors:
            message = f"the alias *{suggest.shorten(event.anchor)} has no anchor before it"
            hint = suggest.did_you_mean(event.anchor, self.anchors)
            self.findings.stop(place, path, message, hint)
        return self.anchors[event.anchor]

    def _sequence(self, place: Place, path: str, depth: int) -> Sequence:
        items: list[Node] = []
        size = 1
        for event in self.events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            items.append(self._node(event, f"{path}[{len(items)}]", depth + 1))
            size += items[-1].size
            if size > MOST_NODES:  # before the list itself grows without bound
                break
        return Sequence(place, tuple(items), size)

    def _mapping(self, place: Place, path: str, depth: int) -> Mapping:
        entries: dict[str, Entry] = {}
        size = 1
        for event in self.events:
            if isinstance(event, yaml.MappingEndEvent) or size > MOST_NODES:
                break
            key = self._node(event, path, depth + 1)
            name = key.text if isinstance(key, Scalar) else ""
            value = self._node(next(self.events), below(path, name), depth + 1)
            size += 1 + value.size
            if not isinstance(key, Scalar):
                self.findings.add(key.place, path, "a list or mapping stands where a key is due")
                continue
            self._enter(entries, name, Entry(_place(event), value), path)
        return Mapping(place, self._merged(entries, path), size)

    def _enter(self, entries: dict[str, Entry], name: str, entry: Entry, path: str) -> None:
        if name in entries:
            first = entries[name].place
            message = (
                f'the key "{suggest.shorten(name)}" stands twice in one mapping, first on line'
                f" {first.line}, column {first.column}"
            )
            self.findings.add(entry.place, below(path, name), message, "keep one of the two")
            return
        entries[name] = entry

    def _merged(self, entries: dict[str, Entry], path: str) -> dict[str, Entry]:
        """Put in what `<<` brings: a key of the mapping itself wins, then the earlier source."""
        if _MERGE not in entries:
            return entries
        merge = entries.pop(_MERGE)
        sources = merge.value.items if isinstance(merge.value, Sequence) else (merge.value,)
        for source in sources:
            if not isinstance(source, Mapping):
                message = "<< takes a mapping or a list of mappings"
                self.findings.add(merge.place, below(path, _MERGE), message)
                continue
            for name, entry in source.entries.items():
                entries.setdefault(name, entry)
        return entries


def _place(event: Any) -> Place:
    return Place(event.start_mark.line + 1, event.start_mark.column + 1)


def _is_empty(node: Node) -> bool:
    return isinstance(node, Scalar) and node.plain and node.text in ("", "~", "null")


def _check_characters(body: str, findings: Findings) -> None:
    size = len(body.encode("utf-8", "surrogatepass"))
    if size > MOST_BYTES:
        message = f"the text has {size} bytes, more than the {MOST_BYTES} of a ConfigMap"
        findings.stop(Place(1, 1), "", message)
    odd = _UNPRINTABLE.search(body)
    if odd:
        message = f"the character U+{ord(odd.group()):04X} is not allowed in YAML"
        findings.stop(_place_at(body, odd.start()), "", message)


def _refuse_syntax(error: yaml.MarkedYAMLError, body: str, findings: Findings) -> None:
    """Say where the text stops being YAML; tabs hide in errors that never name them."""
    mark = error.context_mark if error.problem_mark is None else error.problem_mark
    place = Place(mark.line + 1, mark.column + 1) if mark is not None else Place(1, 1)
    tab = _TAB_INDENT.search(body)
    if tab and _place_at(body, tab.end() - 1).line <= place.line + 1:
        message = "a tab stands in the indentation"
        findings.stop(_place_at(body, tab.end() - 1), "", message, "indent with spaces")
    what = " ".join(part for part in (error.context, error.problem) if part)
    findings.stop(place, "", f"this is not YAML: {what}", "write `key: value`, indented by spaces")


def _place_at(body: str, index: int) -> Place:
    before = lines(body[:index])
    return Place(len(before), len(before[-1]) + 1)
