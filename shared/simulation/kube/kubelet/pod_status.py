"""What the kubelet writes into a pod's status; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Status = dict[str, Any]


def rejected(reason: str, message: str) -> Status:
    """Return the status of a pod refused at admission."""
    return {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}"}


def running(pod: Mapping[str, Any], now: str, restarts: int = 0) -> Status:
    """Return the status of a pod whose containers all run; init containers have ended by then."""
    spec = pod["spec"]
    return {
        "phase": "Running",
        "startTime": now,
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": now}
            for kind in ("Initialized", "Ready", "ContainersReady")
        ],
        "containerStatuses": [_started(one, now, restarts) for one in spec["containers"]],
        "initContainerStatuses": [_ended(one, now, 0) for one in spec.get("initContainers", ())],
    }


def finished(pod: Mapping[str, Any], now: str, exit_code: int) -> Status:
    """Return the status of a pod whose containers ended: Succeeded only if all ended with 0."""
    return {
        "phase": "Failed" if exit_code else "Succeeded",
        "conditions": [
            {"type": kind, "status": "False", "reason": "PodCompleted", "lastTransitionTime": now}
            for kind in ("Ready", "ContainersReady")
        ],
        "containerStatuses": [_ended(one, now, exit_code) for one in pod["spec"]["containers"]],
    }


def _started(container: Mapping[str, Any], now: str, restarts: int) -> Status:
    begun = _container(container, {"running": {"startedAt": now}}, ready=True)
    return begun | {"restartCount": restarts}


def _ended(container: Mapping[str, Any], now: str, exit_code: int) -> Status:
    reason = "Error" if exit_code else "Completed"
    ended = {"exitCode": exit_code, "reason": reason, "finishedAt": now}
    return _container(container, {"terminated": ended}, ready=False)


def _container(container: Mapping[str, Any], state: Status, *, ready: bool) -> Status:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "restartCount": 0,
        "ready": ready,
        "started": ready,
        "state": state,
    }
