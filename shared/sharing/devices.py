"""The `devices` of an entry: `all`, or a list of indexes, `gpu:mig` pairs and UUIDs."""

from __future__ import annotations

import re

from shared.domain.errors import Place
from shared.sharing import scalars, tree
from shared.sharing.fields import Field

_FORMS = "all, or a list of GPU indexes (0), gpu:mig pairs (1:0) and UUIDs"
_INDEX = re.compile(r"(0|[1-9][0-9]{0,5})(:(0|[1-9][0-9]{0,5}))?")
_HEX = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_UUID = re.compile(f"GPU-{_HEX}|MIG-{_HEX}|MIG-GPU-{_HEX}/[0-9]+/[0-9]+")

Refs = tuple[tuple[str, Place], ...]


def read(field: Field) -> Refs | None:
    """Return the devices with their places; None for all, and after a mistake was reported."""
    if isinstance(field.node, tree.Scalar):
        _read_word(field, field.node)
        return None
    items = field.items(_FORMS) if isinstance(field.node, tree.Sequence) else None
    if items is None:
        field.report(f"found {field.found()}, accepted: {_FORMS}")
        return None
    if not items:
        field.report(f"the list is empty, accepted: {_FORMS}", "leave devices out to share all")
    return _distinct(items)


def _read_word(field: Field, node: tree.Scalar) -> None:
    if scalars.resolve(node.text, plain=node.plain) == "all":
        return
    if re.fullmatch("[0-9]+", node.text):
        hint = f"a number alone could be a count or an index: write [{node.text}] for the index"
    else:
        hint = "write all" if node.text.lower() == "all" else ""
    field.report(f"found {field.found()}, accepted: {_FORMS}", hint)


def _distinct(items: tuple[Field, ...]) -> Refs:
    found: dict[str, Place] = {}
    for item in items:
        ref = _read_ref(item)
        if ref is None:
            continue
        if ref in found:
            first = found[ref]
            item.report(
                f"device {ref} is listed twice, first on line {first.line}, column {first.column}"
            )
        found.setdefault(ref, item.place)
    return tuple(found.items())


def _read_ref(item: Field) -> str | None:
    text = item.node.text if isinstance(item.node, tree.Scalar) else ""
    prefix, dash, rest = text.partition("-")
    ref = prefix + dash + (rest if rest.startswith("GPU-") else rest.lower())
    if _INDEX.fullmatch(ref) or _UUID.fullmatch(ref):
        return ref
    spelling = scalars.number_spelling(text)
    hint = f"write {spelling}" if spelling != text and _INDEX.fullmatch(spelling) else ""
    item.report(f"found {item.found()}, accepted is an index (0), a pair (1:0) or a UUID", hint)
    return None
