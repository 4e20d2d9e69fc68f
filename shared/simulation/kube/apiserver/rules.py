"""What a write turns into: the object to store, or a refusal.

Pure: `objects` gives the old object, the wanted one and, where they matter, time and identity,
and commits what comes back. Old objects are never changed.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.simulation.kube.apiserver import (
    defaults,
    encoding,
    kinds,
    moments,
    refusals,
    shapes,
    validation,
)
from shared.simulation.kube.apiserver.encoding import Json
from shared.simulation.kube.apiserver.kinds import Kind

_SERVERS_OWN = (
    "name", "namespace", "uid", "creationTimestamp", "generation", "resourceVersion",
    "deletionTimestamp", "deletionGracePeriodSeconds",
)  # fmt: skip
_NOT_FROM_CREATOR = (
    "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink",
)  # fmt: skip
_TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class Birth:
    """What a new object gets from outside: identity, time, and the end of a generated name."""

    uid: str
    at: str
    suffix: str


@dataclass(frozen=True)
class Deletion:
    """DeleteOptions: grace in seconds (None: the object's own) and what the object must be."""

    grace_seconds: int | None = None
    uid: str | None = None
    resource_version: str | None = None


def born(kind: Kind, namespace: str, body: Json, birth: Birth) -> Json:
    """Return the object that a create makes of its body."""
    check_body(kind, body)
    data: Json = encoding.decode(encoding.encode(body))  # a copy, quicker than copy.deepcopy
    metadata = data["metadata"] = data.get("metadata") or {}
    if metadata.get("namespace", namespace) != namespace:
        raise refusals.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if metadata.pop("resourceVersion", None):
        text = "resourceVersion should not be set on objects to be created"
        raise refusals.Refused(500, text)
    for field in [key for key in metadata if key in _NOT_FROM_CREATOR or not metadata[key]]:
        del metadata[field]
    if "status" in kind.subresources and kind is not kinds.NODE:
        data.pop("status", None)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = metadata["generateName"] + birth.suffix
    metadata.update(uid=birth.uid, creationTimestamp=birth.at)
    metadata.update({"namespace": namespace} if kind.namespaced else {})
    metadata.update({"generation": 1} if kind.has_generation else {})
    _require_name(kind, metadata)
    defaults.fill(kind.stored, data)
    return _valid(kind, data)


def check_body(kind: Kind, body: Json) -> None:
    """Refuse a body of another kind, or one whose fields have other types."""
    said = (body.get("kind") or kind.name, body.get("apiVersion") or kind.group_version)
    if said != (kind.name, kind.group_version):
        raise refusals.bad_request(
            f"{said[0]} in version {said[1]!r} cannot be handled as a {kind.name}"
        )
    try:
        shapes.check(kind.stored, body)
    except shapes.Misfit as misfit:
        raise refusals.bad_request(str(misfit)) from None


def check_patched(kind: Kind, old: Json, new: Json) -> None:
    """Refuse what only a patch is refused for: a misfit as 422, another uid as immutable."""
    try:
        shapes.check(kind.stored, new)
    except shapes.Misfit as misfit:
        raise refusals.unfit_patch(str(misfit)) from None
    uid, wanted = old["metadata"]["uid"], (new.get("metadata") or {}).get("uid")
    if wanted not in {None, uid}:
        cause = refusals.Cause(
            "FieldValueInvalid", f'Invalid value: "{wanted}": field is immutable', "metadata.uid"
        )
        raise refusals.invalid(kind, old["metadata"]["name"], [cause])


def updated(kind: Kind, old: Json, wanted: Json, *, part: str = "") -> Json:
    """Return the object that a write makes of the old one; equal to it if nothing changes.

    Args:
        kind: the kind of both.
        old: the object as it is stored.
        wanted: the object as its writer wants it; given away, it shares nothing with the old.
        part: "status" for the subresource, which changes only status and metadata, else "".
    """
    name = old["metadata"]["name"]
    metadata = _kept_metadata(kind, old["metadata"], wanted.get("metadata") or {})
    new = {"metadata": metadata, **_kept_parts(kind, old, wanted, part)}
    defaults.fill(kind.stored, new)
    _valid(kind, new)
    if kind is kinds.POD and (found := validation.pod_change_causes(old, new)):
        raise refusals.invalid(kind, name, found)
    if kind.has_generation and new.get("spec") != old.get("spec"):
        metadata["generation"] = old["metadata"].get("generation", 0) + 1
    return new


def _kept_metadata(kind: Kind, old: Json, wanted: Json) -> Json:
    name = old["name"]
    if wanted.get("name", name) != name:
        raise refusals.bad_request(
            f"the name of the object ({wanted['name']}) does not match the name on the URL ({name})"
        )
    namespace = old.get("namespace", "")
    if (wanted.get("namespace") or namespace) != namespace:
        raise refusals.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if wanted.get("resourceVersion") not in {None, "", old["resourceVersion"]}:
        raise refusals.conflict(kind, name)
    if wanted.get("uid") not in {None, "", old["uid"]}:
        raise refusals.wrong_uid(kind, name, wanted["uid"], old["uid"])
    own = {field: old[field] for field in _SERVERS_OWN if field in old}
    hidden = (*_SERVERS_OWN, "managedFields")
    given = {key: value for key, value in wanted.items() if key not in hidden and value}
    return {**given, **own}


def _kept_parts(kind: Kind, old: Json, wanted: Json, part: str) -> Json:
    hidden = ("metadata", "kind", "apiVersion")
    parts = {key for key in {*old, *wanted} if key not in hidden}
    of_status = parts & {"status"} if "status" in kind.subresources else set()
    writable = of_status if part == "status" else parts - of_status
    source = {key: wanted if key in writable else old for key in parts}
    return {key: source[key][key] for key in parts if source[key].get(key) is not None}


def deleted(kind: Kind, old: Json, deletion: Deletion, now_ns: int) -> Json | None:
    """Return the object as it waits for its end, or None if it goes at once."""
    check_preconditions(kind, old, deletion)
    metadata = old["metadata"]
    grace = _grace(kind, old, deletion)
    if not grace and not metadata.get("finalizers"):
        return None
    if "deletionTimestamp" not in metadata:
        mark = {
            "deletionTimestamp": moments.shifted(moments.to_time(now_ns), grace),
            "deletionGracePeriodSeconds": grace,
        }
        if "generation" in metadata:
            mark["generation"] = metadata["generation"] + 1
        return {**old, "metadata": {**metadata, **mark}}
    sooner = metadata["deletionGracePeriodSeconds"] - grace
    if sooner <= 0:
        return old
    mark = {
        "deletionTimestamp": moments.shifted(metadata["deletionTimestamp"], -sooner),
        "deletionGracePeriodSeconds": grace,
    }
    return {**old, "metadata": {**metadata, **mark}}


def check_preconditions(kind: Kind, old: Json, deletion: Deletion) -> None:
    """Refuse with 409 a deletion that is meant for another object or another state of it."""
    metadata = old["metadata"]
    if deletion.uid not in {None, metadata["uid"]}:
        raise refusals.wrong_uid(kind, metadata["name"], deletion.uid, metadata["uid"])
    if deletion.resource_version not in {None, metadata["resourceVersion"]}:
        raise refusals.conflict(kind, metadata["name"])


def _grace(kind: Kind, old: Json, deletion: Deletion) -> int:
    if kind is not kinds.POD or not old["spec"].get("nodeName"):
        return 0
    if old.get("status", {}).get("phase") in _TERMINAL_PHASES:
        return 0
    if deletion.grace_seconds is not None:
        return deletion.grace_seconds if deletion.grace_seconds >= 0 else 1
    pending: int | None = old["metadata"].get("deletionGracePeriodSeconds")
    own: int = old["spec"].get("terminationGracePeriodSeconds", 30)
    return own if pending is None else pending


def is_over(data: Json) -> bool:
    """Say whether nothing holds a deleted object any more: no finalizer and no grace."""
    metadata = data["metadata"]
    held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    return "deletionTimestamp" in metadata and not held


def _require_name(kind: Kind, metadata: Json) -> None:
    if not metadata.get("name"):
        why = "Required value: name or generateName is required"
        cause = refusals.Cause("FieldValueRequired", why, "metadata.name")
        raise refusals.invalid(kind, "", [cause])


def _valid(kind: Kind, data: Json) -> Json:
    if found := validation.causes(kind, data):
        raise refusals.invalid(kind, data["metadata"]["name"], found)
    return data
