"""What makes a well-formed object invalid, as a list of causes (none: it is valid).

Pure; `rules` turns the causes of a written object into one 422.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from shared.simulation.kube.apiserver import containers, kinds, names
from shared.simulation.kube.apiserver.encoding import Json
from shared.simulation.kube.apiserver.kinds import Kind
from shared.simulation.kube.apiserver.refusals import Cause, missing_value, wrong_value

ANNOTATIONS_LIMIT = 256 * 1024
DATA_LIMIT = 1024 * 1024
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_POD_MAY_CHANGE = frozenset({"activeDeadlineSeconds", "terminationGracePeriodSeconds"})
_POD_IMMUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions"
    " to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it"
    " was previously negative)"
)
_EVENT_V1_NEEDS = ("eventTime", "reportingController", "reportingInstance", "action", "reason")


def causes(kind: Kind, data: Json) -> list[Cause]:
    """Return what is wrong with an object of that kind."""
    found = list(_metadata(kind, data["metadata"]))
    if kind in _RULES:
        found.extend(_RULES[kind](data))
    return found


def _too_long(field: str, limit: int) -> Cause:
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", field)


def _metadata(kind: Kind, metadata: Json) -> Iterator[Cause]:
    name = metadata["name"]
    fault_of = names.fault_of_label if kind is kinds.NAMESPACE else names.fault_of_name
    if why := fault_of(name):
        yield wrong_value("metadata.name", name, why)
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    for key, value in labels.items():
        yield from _key("metadata.labels", key)
        if why := names.fault_of_value(value):
            yield wrong_value("metadata.labels", value, why)
    for key in annotations:
        yield from _key("metadata.annotations", key)
    if sum(_bytes(key) + _bytes(value) for key, value in annotations.items()) > ANNOTATIONS_LIMIT:
        yield _too_long("metadata.annotations", ANNOTATIONS_LIMIT)


def _key(field: str, key: str) -> Iterator[Cause]:
    if why := names.fault_of_key(key):
        yield wrong_value(field, key, why)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _data(data: Json) -> Iterator[Cause]:
    entries = [*(data.get("data") or {}).items(), *(data.get("binaryData") or {}).items()]
    for key, _ in entries:
        if len(key) > 253 or not _DATA_KEY.fullmatch(key) or key in {".", ".."}:
            why = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
            yield wrong_value(f"data[{key}]", key, why)
    if sum(_bytes(value) for _, value in entries) > DATA_LIMIT:
        yield _too_long("", DATA_LIMIT)


def _pod(pod: Json) -> Iterator[Cause]:
    spec = pod["spec"]
    if not spec.get("containers"):
        yield missing_value("spec.containers")
    taken: set[str] = set()
    for group in ("containers", "initContainers"):
        yield from containers.causes(group, spec.get(group) or (), taken)
    if spec["restartPolicy"] not in {"Always", "OnFailure", "Never"}:
        supported = '"Always", "OnFailure", "Never"'
        why = f'Unsupported value: "{spec["restartPolicy"]}": supported values: {supported}'
        yield Cause("FieldValueNotSupported", why, "spec.restartPolicy")


def _event(event: Json) -> Iterator[Cause]:
    about = (event.get("involvedObject") or {}).get("namespace", "")
    if event["metadata"]["namespace"] != (about or "default"):
        yield wrong_value("involvedObject.namespace", about, "does not match event.namespace")


def _event_v1(event: Json) -> Iterator[Cause]:
    for field in _EVENT_V1_NEEDS:
        if not event.get(kinds.EVENT_V1.stored_field(field)):
            yield missing_value(field)
    yield from _event(event)


def _lease(lease: Json) -> Iterator[Cause]:
    spec = lease.get("spec") or {}
    if spec.get("leaseDurationSeconds", 1) <= 0:
        seconds = spec["leaseDurationSeconds"]
        yield wrong_value("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if spec.get("leaseTransitions", 0) < 0:
        yield wrong_value("spec.leaseTransitions", spec["leaseTransitions"], "must not be negative")


def _budget(budget: Json) -> Iterator[Cause]:
    spec = budget.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        why = "minAvailable and maxUnavailable cannot be both set"
        yield wrong_value(
            "spec", {key: spec[key] for key in ("minAvailable", "maxUnavailable")}, why
        )


_RULES: dict[Kind, Callable[[Json], Iterator[Cause]]] = {
    kinds.POD: _pod,
    kinds.CONFIG_MAP: _data,
    kinds.SECRET: _data,
    kinds.EVENT: _event,
    kinds.EVENT_V1: _event_v1,
    kinds.LEASE: _lease,
    kinds.BUDGET: _budget,
}


def pod_change_causes(old: Json, new: Json) -> list[Cause]:
    """Return what a write of a pod may not change in its spec."""
    before, after = _fixed_part(old["spec"]), _fixed_part(new["spec"])
    added_only = _contains(new["spec"].get("tolerations"), old["spec"].get("tolerations"))
    if before == after and added_only:
        return []
    return [Cause("FieldValueForbidden", f"Forbidden: {_POD_IMMUTABLE}", "spec")]


def _fixed_part(spec: Json) -> Json:
    fixed = {key: value for key, value in spec.items() if key not in _POD_MAY_CHANGE}
    fixed.pop("tolerations", None)
    for group in ("initContainers", "containers"):
        if group in fixed:
            fixed[group] = [{**each, "image": ""} for each in fixed[group] or ()]
    return fixed


def _contains(whole: Iterable[Json] | None, part: Iterable[Json] | None) -> bool:
    have = list(whole or ())
    return all(each in have for each in part or ())
