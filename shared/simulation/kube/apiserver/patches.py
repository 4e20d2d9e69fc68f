"""A PATCH body and an object to the patched object, by the three media types of the API.

Pure; `writes` reads a body into a patch before the object is looked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shared.simulation.kube.apiserver import jsonpatch, refusals, strategic
from shared.simulation.kube.apiserver.encoding import Json

Patch = Callable[[Json], Json]
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
MEDIA_TYPES = (JSON_PATCH, MERGE, STRATEGIC)
_SHAPES: dict[type, str] = {list: "array", dict: "object"}


def merge(old: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7386): maps merge, null removes, all else is replaced."""
    if not isinstance(patch, dict):
        return patch
    out = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merge(out.get(key), value)
    return out


def read(media_type: str, body: Any) -> Patch:
    """Turn a request's body into a function from the old object to the new one.

    Args:
        media_type: one of `MEDIA_TYPES`, which `http` has checked before it read the body.
        body: the patch; 400 if it has not the shape of one.
    """
    wanted = list if media_type == JSON_PATCH else dict
    if not isinstance(body, wanted):
        raise refusals.bad_request(f"a body of {media_type} must be a JSON {_SHAPES[wanted]}")
    return lambda old: _an_object(_APPLY[media_type](old, body))


def _an_object(value: Any) -> Json:
    if not isinstance(value, dict):
        raise refusals.unfit_patch("the patched value is not an object")
    return value


_APPLY: dict[str, Callable[[Any, Any], Any]] = {
    MERGE: merge,
    STRATEGIC: strategic.merge,
    JSON_PATCH: jsonpatch.apply,
}
