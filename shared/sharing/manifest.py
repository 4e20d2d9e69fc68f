"""A ConfigMap manifest to its sharing texts, each knowing where it stands in the file.

Called by `slicewire plan`, whose users have the manifest in a file and want mistakes to be told
by the lines of that file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from shared.domain.errors import Place, Problem
from shared.sharing import foreign, scalars, suggest, tree
from shared.sharing.findings import Findings

_LISTS = ("List", "ConfigMapList")


@dataclass(frozen=True, slots=True)
class Text:
    """The value of one key. `place` is where the value begins, in a block that of its text."""

    text: str
    place: Place
    literal: bool

    def placed(self, problem: Problem) -> Problem:
        """Return a problem of the text with its place in the file.

        Only a literal block keeps the lines of its text; what stands in quotes is told by the
        place of the value.
        """
        if not problem.line:
            return problem
        line, column = self.place.line, self.place.column
        if self.literal:
            line, column = line + problem.line - 1, column + problem.column - 1
        return dataclasses.replace(problem, line=line, column=column)


def texts(body: str) -> dict[str, Text] | None:
    """Return the texts of the ConfigMap in a manifest; None where the file is no manifest.

    Raises:
        RefusedError: not YAML, no ConfigMap among the objects, more than one, or values that
            are no texts.
    """
    findings = Findings()
    documents = tree.documents(body, findings)
    objects = [each for node in documents for each in _objects(node)]
    if not objects:
        return None
    maps = [node for node in objects if _kind(node) == "ConfigMap"]
    if len(maps) != 1:
        kinds = suggest.listed(_kind(node) for node in objects)
        message = f"the manifest holds {len(maps)} ConfigMaps ({kinds}), one is due"
        hints = () if maps else filter(None, map(foreign.release_hint, objects))
        findings.stop(objects[0].place, "", message, next(iter(hints), ""))
    found = _data(maps[0], tree.lines(body), findings)
    findings.settle()
    return found


def _objects(node: tree.Node) -> Iterator[tree.Mapping]:
    """The object that stands there, or those of a list as `kubectl get --output yaml` prints it."""
    if not isinstance(node, tree.Mapping) or not _kind(node):
        return
    items = node.entries.get("items")
    if _kind(node) in _LISTS and items and isinstance(items.value, tree.Sequence):
        listed = [each for item in items.value.items for each in _objects(item)]
        yield from listed or [node]
    else:
        yield node


def _kind(node: tree.Mapping) -> str:
    entry = node.entries.get("kind")
    if entry is None or "apiVersion" not in node.entries:
        return ""
    return entry.value.text if isinstance(entry.value, tree.Scalar) else ""


def _data(config_map: tree.Mapping, lines: list[str], findings: Findings) -> dict[str, Text]:
    data = config_map.entries.get("data")
    found: dict[str, Text] = {}
    if data is None or _is_null(data.value):
        return found
    if not isinstance(data.value, tree.Mapping):
        message = "the data of a ConfigMap is a mapping of keys to texts"
        findings.add(data.value.place, "data", message, "write <key>: |- under data")
        return found
    for key, entry in data.value.entries.items():
        value = entry.value
        if isinstance(value, tree.Scalar) and _is_text(value):
            found[key] = Text(value.text, _start(value, lines), value.literal)
        else:
            message = "the value of a ConfigMap's key is a text"
            findings.add(value.place, tree.below("data", key), message, "write it as a block: |-")
    return found


def _is_null(value: tree.Node) -> bool:
    return isinstance(value, tree.Scalar) and scalars.resolve(value.text, plain=value.plain) is None


def _is_text(value: tree.Scalar) -> bool:
    return isinstance(scalars.resolve(value.text, plain=value.plain), str)


def _start(value: tree.Scalar, lines: list[str]) -> Place:
    """Find the first character of a block's text, by the indentation of its first full line."""
    if not value.literal:
        return value.place
    for number, line in enumerate(tree.lines(value.text)):
        if line.strip():
            indent = len(lines[value.place.line + number]) - len(line)
            return Place(value.place.line + 1, indent + 1)
    return value.place
