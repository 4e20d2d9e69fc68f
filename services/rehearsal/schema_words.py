"""Pieces that schemas of stories are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Schema = dict[str, Any]

COUNT: Schema = {"type": "integer", "minimum": 0}
PERCENT: Schema = {"type": "integer", "minimum": 0, "maximum": 100}
TEXT: Schema = {"type": ["string", "number", "boolean"]}  # where only a text can stand, 4 is one


def mapping(properties: Mapping[str, Schema], *, required: Sequence[str] = ()) -> Schema:
    """A map with these keys and no others."""
    needs: Schema = {"required": list(required)} if required else {}
    known = dict(properties)
    return {"type": "object", "additionalProperties": False, "properties": known} | needs


def entries(value: Schema) -> Schema:
    """A map whose keys are the writer's own."""
    return {"type": "object", "additionalProperties": value}


def listing(item: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": item}


MAP_OF_TEXTS = entries(TEXT)
