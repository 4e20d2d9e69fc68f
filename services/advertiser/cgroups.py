"""The text of /proc/<pid>/cgroup → the pod and the container that a process belongs to. Pure.

The path of a pod's group holds its uid and then, behind it, the container's id, however the node
is set up: version 1 (a line a controller) and 2 (one line), groups made by systemd or by the
runtime itself, the kubelet's own group inside another's (kind), the reader in a namespace of its
own (the path begins with `..`), groups that a container makes for itself:

    /kubepods.slice/kubepods-pod<uid with _>.slice/cri-containerd-<id>.scope
    /kubepods/burstable/pod<uid>/<id>
    /system.slice/containerd.service/kubepods-burstable-pod<uid with _>.slice:cri-containerd:<id>
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# A static pod's uid is a hash without dashes.
_POD = re.compile(
    r"(?:^|[/-])pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?![0-9a-z])"
)
_CONTAINER = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


@dataclass(frozen=True, slots=True)
class Membership:
    """Whose a process is; `container_id` is empty where the path names none."""

    pod_uid: str
    container_id: str


def membership(text: str) -> Membership | None:
    """Read the file; None for a process of the host.

    Of several pods in one path the outermost is the node's own; likewise of containers.
    """
    for line in text.splitlines():
        path = line.split(":", 2)[-1]  # behind the number and the controllers; it may hold colons
        if pod := _POD.search(path):
            container = _CONTAINER.search(path, pod.end())
            return Membership(pod[1].replace("_", "-"), container[0] if container else "")
    return None
