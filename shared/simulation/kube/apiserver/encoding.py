"""JSON text of the API and Python values, in both directions.

Every other module of this server that reads or writes JSON does it here, so that objects have
one compact spelling and a body that is not JSON is refused in one way.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

Json = dict[str, Any]


def encode(value: object) -> bytes:
    """Write a value as compact UTF-8 JSON; half a surrogate pair becomes a question mark."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "replace")


def decode(raw: bytes) -> Any:
    """Read JSON; ValueError where it is none (NaN and Infinity are none, whatever Python says)."""
    return json.loads(raw, parse_constant=_no_constant)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
