"""Stored objects to the bytes of an answer, in the form that the Accept header asks for.

The full and the metadata-only form are joins of stored bytes; only a Table, or an Event seen
through events.k8s.io, is read and written anew.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from shared.simulation.kube.apiserver import encoding, refusals, tables
from shared.simulation.kube.apiserver.encoding import Json
from shared.simulation.kube.apiserver.kinds import Kind
from shared.simulation.kube.apiserver.store import Stored

JSON_TYPE = "application/json"
_METADATA_HEAD = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'
_METADATA_LIST_HEAD = b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1",'
_TABLE_HEAD = b'{"kind":"Table","apiVersion":"meta.k8s.io/v1",'


class Form(enum.Enum):
    """How objects are written, named as in the `as` of an Accept header."""

    OBJECT = ""
    METADATA = "PartialObjectMetadata"
    TABLE = "Table"


def negotiate(accept: str) -> Form:
    """Return the first form in an Accept header that can be written; 406 where there is none."""
    for choice in accept.split(","):
        media_type, *parameters = [part.strip() for part in choice.split(";")]
        if media_type not in {"", "*/*", "application/*", JSON_TYPE}:
            continue
        asked = dict(part.partition("=")[::2] for part in parameters).get("as", "")
        for form in Form:
            if asked.removesuffix("List") == form.value:
                return form
    raise refusals.Refused(
        406, f"only the following media types are accepted: {JSON_TYPE}, as Table or metadata too"
    )


def one(form: Form, kind: Kind, stored: Stored, now_ns: int) -> bytes:
    """Write a single object, or the object of a watch event."""
    if form is Form.METADATA:
        return _metadata_only(stored)
    if form is Form.TABLE:
        return many(form, kind, [stored], {"resourceVersion": str(stored.version)}, now_ns)
    if kind.renames:
        return encoding.encode(_as_view(kind, stored))
    return kind.head + stored.tail()


def many(form: Form, kind: Kind, items: Sequence[Stored], metadata: Json, now_ns: int) -> bytes:
    """Write a list with its own metadata; items of the full form lack kind and apiVersion."""
    about = b'"metadata":' + encoding.encode(metadata)
    if form is Form.METADATA:
        listed = b",".join(_metadata_only(item) for item in items)
        return _METADATA_LIST_HEAD + about + b',"items":[' + listed + b"]}"
    if form is Form.TABLE:
        rows = b",".join(_row(kind, item, now_ns) for item in items)
        heads = b',"columnDefinitions":' + tables.columns(kind)
        return _TABLE_HEAD + about + heads + b',"rows":[' + rows + b"]}"
    head = kind.head.replace(b'",', b'List",', 1)
    if kind.renames:
        listed = b",".join(encoding.encode(_as_view(kind, item)) for item in items)
    else:
        listed = b",".join(b"{" + item.tail() for item in items)
    return head + about + b',"items":[' + listed + b"]}"


def to_stored(kind: Kind, body: Json) -> Json:
    """Rename the top fields of a body sent through a view to those that are stored."""
    return {kind.renames.get(key, key): value for key, value in body.items()}


def _as_view(kind: Kind, stored: Stored) -> Json:
    names = {stored_name: name for name, stored_name in kind.renames.items()}
    seen = {names.get(key, key): value for key, value in stored.data().items()}
    return {"kind": kind.name, "apiVersion": kind.group_version, **seen}


def _metadata_only(stored: Stored) -> bytes:
    return _METADATA_HEAD + stored.metadata + b"}"


def _row(kind: Kind, stored: Stored, now_ns: int) -> bytes:
    cells = tables.cells(kind, stored.data(), now_ns)
    return b'{"cells":' + cells + b',"object":' + _metadata_only(stored) + b"}"
