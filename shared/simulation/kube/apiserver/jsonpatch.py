"""JSON patch (RFC 6902): a list of operations, all or none of which take effect.

Pure; `patches` calls `apply`. Whatever goes wrong is one refusal, as the real server has it:
422 Invalid without details.
"""

from __future__ import annotations

import copy
from typing import Any

from shared.simulation.kube.apiserver import refusals
from shared.simulation.kube.apiserver.encoding import Json

_MISTAKES = (KeyError, IndexError, ValueError, TypeError, AttributeError)


def apply(document: Json, operations: list[Any]) -> Any:
    """Return the document with the operations applied in order; the given one stays as it is."""
    holder = {"": copy.deepcopy(document)}  # the root is a member too, so that it can be replaced
    try:
        for operation in operations:
            _perform(holder, operation)
    except _MISTAKES:
        raise refusals.failed_json_patch() from None
    return holder[""]


def _perform(holder: Json, operation: Json) -> None:
    path = operation["path"]
    match operation["op"]:
        case "add":
            _add(holder, path, operation["value"])
        case "remove":
            _remove(holder, path)
        case "replace":
            _remove(holder, path)
            _add(holder, path, operation["value"])
        case "move":
            _add(holder, path, _remove(holder, operation["from"]))
        case "copy":
            _add(holder, path, copy.deepcopy(_read(holder, operation["from"])))
        case "test":
            if _read(holder, path) != operation["value"]:
                raise ValueError(path)
        case unknown:
            raise ValueError(unknown)


def _walk(holder: Json, pointer: str) -> tuple[Any, str]:
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")]
    if parts[0]:
        raise ValueError(f"{pointer} does not begin with a slash")
    place: Any = holder
    for part in parts[:-1]:
        place = place[_index(part, len(place) - 1)] if isinstance(place, list) else place[part]
    return place, parts[-1]


def _index(part: str, last: int) -> int:
    if (
        not (part.isascii() and part.isdecimal())
        or (part != "0" and part.startswith("0"))
        or int(part) > last
    ):
        raise IndexError(part)
    return int(part)


def _read(holder: Json, pointer: str) -> Any:
    place, last = _walk(holder, pointer)
    return place[_index(last, len(place) - 1)] if isinstance(place, list) else place[last]


def _add(holder: Json, pointer: str, value: object) -> None:
    place, last = _walk(holder, pointer)
    if isinstance(place, list):
        place.insert(len(place) if last == "-" else _index(last, len(place)), value)
    elif isinstance(place, dict):
        place[last] = value
    else:
        raise TypeError(pointer)


def _remove(holder: Json, pointer: str) -> Any:
    place, last = _walk(holder, pointer)
    return place.pop(_index(last, len(place) - 1) if isinstance(place, list) else last)
