"""Texts by name as one annotation on a node: what must outlive every process of ours. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping


def read(annotations: Mapping[str, str], name: str) -> dict[str, str]:
    """Read one; people can write anything there, and what is no JSON object counts as none."""
    try:
        found = json.loads(annotations.get(name) or "{}")
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: value for key, value in found.items() if isinstance(value, str)}


def written(values: Mapping[str, str]) -> str:
    """Write one; equal values give equal text."""
    return json.dumps(dict(values), sort_keys=True)
