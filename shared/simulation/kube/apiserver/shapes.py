"""The types that a body must have before any rule looks at it.

The real server decodes into Go structs; this one checks the fields that its own rules read and
the ones that people get wrong. A misfit is 400 in a body and 422 in the result of a patch, so it
is raised as `Misfit` and the caller says which. Unknown fields are kept: there are no schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from shared.simulation.kube.apiserver import kinds, moments, refusals
from shared.simulation.kube.apiserver.encoding import Json
from shared.simulation.kube.apiserver.kinds import Kind

Check = Callable[[Any], bool]


class Misfit(ValueError):  # noqa: N818 - becomes a Refused at once
    """A field holds a value of another type than its kind has there."""


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_map(value: object) -> bool:
    return isinstance(value, dict)


def _is_map_of_text(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_list_of_maps(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _is_count_or_percentage(value: object) -> bool:
    return _is_count(value) or (
        isinstance(value, str) and value.endswith("%") and value[:-1].isdecimal()
    )


_EVERY: dict[str, Check] = {
    "metadata": _is_map,
    "metadata.name": _is_text,
    "metadata.generateName": _is_text,
    "metadata.namespace": _is_text,
    "metadata.resourceVersion": _is_text,
    "metadata.uid": _is_text,
    "metadata.labels": _is_map_of_text,
    "metadata.annotations": _is_map_of_text,
    "metadata.finalizers": _is_list_of_text,
    "metadata.ownerReferences": _is_list_of_maps,
    "spec": _is_map,
    "status": _is_map,
    "status.conditions": _is_list_of_maps,
}
_OF_KIND: dict[Kind, dict[str, Check]] = {
    kinds.POD: {
        "spec.containers": _is_list_of_maps,
        "spec.initContainers": _is_list_of_maps,
        "spec.nodeName": _is_text,
        "spec.terminationGracePeriodSeconds": _is_count,
        "status.containerStatuses": _is_list_of_maps,
    },
    kinds.NODE: {"status.capacity": _is_map, "status.allocatable": _is_map},
    kinds.CONFIG_MAP: {"data": _is_map_of_text, "binaryData": _is_map_of_text},
    kinds.SECRET: {"data": _is_map_of_text, "stringData": _is_map_of_text},
    kinds.EVENT: {"involvedObject": _is_map, "eventTime": moments.is_micro_time},
    kinds.LEASE: {
        "spec.holderIdentity": _is_text,
        "spec.leaseDurationSeconds": _is_count,
        "spec.leaseTransitions": _is_count,
        "spec.acquireTime": moments.is_micro_time,
        "spec.renewTime": moments.is_micro_time,
    },
    kinds.BUDGET: {
        "spec.selector": _is_map,
        "spec.minAvailable": _is_count_or_percentage,
        "spec.maxUnavailable": _is_count_or_percentage,
    },
}


def as_object(body: Any) -> Json:
    """Return a body that must be a JSON object; 400 if it is not."""
    if not isinstance(body, dict):
        raise refusals.bad_request("the body of the request must be a JSON object")
    return body


def check(kind: Kind, data: Json) -> None:
    """Return if the fields that are there have their kind's types, else raise Misfit."""
    for path, fits in (_EVERY | _OF_KIND.get(kind, {})).items():
        value = _find(data, path)
        if value is not None and not fits(value):
            raise Misfit(f"{kind.name}.{path}: {value!r} is not of this field's type")
    if kind is kinds.POD:
        _check_resources(data)


def _find(data: Json, path: str) -> Any:
    value: Any = data
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _check_resources(pod: Json) -> None:
    for container in containers(pod):
        resources = container.get("resources") or {}
        if not (_is_map(resources) and all(_is_map(each or {}) for each in resources.values())):
            raise Misfit(f"Pod.spec.containers.resources: {resources!r} is not a map of maps")


def containers(pod: Json) -> Iterator[Json]:
    """Go through the containers of a pod, the initialising ones first."""
    spec = pod.get("spec") or {}
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()
