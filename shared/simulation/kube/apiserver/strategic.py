"""Strategic merge patch: the patch that dict bodies of the Python client are sent as.

It merges maps like a merge patch, and lists of maps by a key that depends on the field
(`conditions` by `type`). Pure; `patches` calls `merge`.
"""

from __future__ import annotations

from typing import Any

from shared.simulation.kube.apiserver import refusals
from shared.simulation.kube.apiserver.encoding import Json

MERGE_KEYS = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "hostIPs": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
MERGED_SETS = frozenset({"finalizers", "podCIDRs"})
_DELETE_FROM = "$deleteFromPrimitiveList/"
_REPLACE_LIST = {"$patch": "replace"}


def merge(old: Any, patch: Any) -> Any:
    """Return the old value with the patch applied; both stay as they are."""
    if not isinstance(patch, dict):
        return patch
    directive = patch.get("$patch")
    if directive == "delete":
        return {}
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    out = _retained(old if isinstance(old, dict) else {}, patch.get("$retainKeys"))
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM):
            listed = key.removeprefix(_DELETE_FROM)
            out[listed] = [each for each in _list(out.get(listed)) if each not in value]
        elif not key.startswith("$"):
            _set(out, key, value, patch.get(f"$setElementOrder/{key}"))
    return out


def _retained(old: Json, keep: list[str] | None) -> Json:
    return {key: value for key, value in old.items() if keep is None or key in keep}


def _set(out: Json, key: str, value: Any, order: list[Any] | None) -> None:
    if value is None:
        out.pop(key, None)
    elif not isinstance(value, list):
        out[key] = merge(out.get(key), value)
    elif key in MERGED_SETS:
        present = _list(out.get(key))
        out[key] = [*present, *(each for each in value if each not in present)]
    elif (merge_key := _merge_key(key, value)) and all(isinstance(each, dict) for each in value):
        out[key] = _ordered(_merged_list(_list(out.get(key)), value, merge_key), order, merge_key)
    else:
        out[key] = value


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _merge_key(field: str, items: list[Any]) -> str | None:
    if field == "ports":  # of containers by containerPort, of services by port
        of_container = any(isinstance(each, dict) and "containerPort" in each for each in items)
        return "containerPort" if of_container else "port"
    return MERGE_KEYS.get(field)


def _merged_list(old: list[Json], patch: list[Json], merge_key: str) -> list[Json]:
    out = [] if _REPLACE_LIST in patch else list(old)
    for item in patch:
        if item == _REPLACE_LIST:
            continue
        if merge_key not in item:
            raise refusals.bad_request(
                f"map: {item} does not contain declared merge key: {merge_key}"
            )
        place = _place(out, merge_key, item[merge_key])
        if item.get("$patch") == "delete":
            out = [each for each in out if each.get(merge_key) != item[merge_key]]
        elif place is None:
            out.append(merge({}, item))
        else:
            out[place] = merge(out[place], item)
    return out


def _place(items: list[Json], merge_key: str, value: object) -> int | None:
    places = (index for index, each in enumerate(items) if each.get(merge_key) == value)
    return next(places, None)


def _ordered(items: list[Json], order: list[Any] | None, merge_key: str) -> list[Json]:
    if not order:
        return items
    rank = {each.get(merge_key): index for index, each in enumerate(order)}
    return sorted(items, key=lambda each: rank.get(each.get(merge_key), len(rank)))
