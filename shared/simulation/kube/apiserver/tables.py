"""Objects as rows of a Table, the form that `kubectl get` prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shared.simulation.kube.apiserver import encoding, kinds, moments
from shared.simulation.kube.apiserver.encoding import Json
from shared.simulation.kube.apiserver.kinds import Kind

Cell = Callable[[Json], Any]


def columns(kind: Kind) -> bytes:
    """Return the column definitions of a kind as JSON."""
    titles = ["Name", *(title for title, _ in _CELLS.get(kind.stored, ())), "Age"]
    return encoding.encode(
        [
            {
                "name": title,
                "type": "string",
                "format": "name" if title == "Name" else "",
                "description": "",
                "priority": 0,
            }
            for title in titles
        ]
    )


def cells(kind: Kind, data: Json, now_ns: int) -> bytes:
    """Return the cells of one object as JSON, its age counted to now."""
    metadata = data["metadata"]
    middle = [cell(data) for _, cell in _CELLS.get(kind.stored, ())]
    born = moments.to_seconds(metadata["creationTimestamp"])
    return encoding.encode([metadata["name"], *middle, _age(now_ns // moments.SECOND_NS - born)])


def _age(seconds: int) -> str:
    for unit, size, upto in (("s", 1, 120), ("m", 60, 7200), ("h", 3600, 172_800)):
        if seconds < upto:
            return f"{max(seconds, 0) // size}{unit}"
    return f"{seconds // 86_400}d"


def _node_status(node: Json) -> str:
    conditions = node["status"].get("conditions") or ()
    ready = [each.get("status") for each in conditions if each.get("type") == "Ready"]
    word = {"True": "Ready", "False": "NotReady"}.get(ready[0] if ready else "", "Unknown")
    return f"{word},SchedulingDisabled" if node["spec"].get("unschedulable") else word


def _node_roles(node: Json) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    roles = sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))
    return ",".join(roles) or "<none>"


def _pod_ready(pod: Json) -> str:
    ready = sum(bool(each.get("ready")) for each in _container_statuses(pod))
    return f"{ready}/{len(pod['spec']['containers'])}"


def _pod_status(pod: Json) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    return str(pod["status"].get("reason") or pod["status"].get("phase", ""))


def _pod_restarts(pod: Json) -> str:
    return str(sum(each.get("restartCount", 0) for each in _container_statuses(pod)))


def _container_statuses(pod: Json) -> list[Json]:
    return pod["status"].get("containerStatuses") or []


def _data_count(data: Json) -> int:
    return len(data.get("data") or {}) + len(data.get("binaryData") or {})


def _event_object(event: Json) -> str:
    about = event.get("involvedObject") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _at(*path: str) -> Cell:
    def find(data: Json) -> Any:
        value: Any = data
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        return value

    return find


_CELLS: dict[Kind, tuple[tuple[str, Cell], ...]] = {
    kinds.NAMESPACE: (("Status", _at("status", "phase")),),
    kinds.NODE: (
        ("Status", _node_status),
        ("Roles", _node_roles),
        ("Version", _at("status", "nodeInfo", "kubeletVersion")),
    ),
    kinds.POD: (("Ready", _pod_ready), ("Status", _pod_status), ("Restarts", _pod_restarts)),
    kinds.CONFIG_MAP: (("Data", _data_count),),
    kinds.SECRET: (("Type", _at("type")), ("Data", _data_count)),
    kinds.EVENT: (
        ("Last Seen", _at("lastTimestamp")),
        ("Type", _at("type")),
        ("Reason", _at("reason")),
        ("Object", _event_object),
        ("Message", _at("message")),
    ),
    kinds.LEASE: (("Holder", _at("spec", "holderIdentity")),),
    kinds.BUDGET: (("Allowed Disruptions", _at("status", "disruptionsAllowed")),),
}
