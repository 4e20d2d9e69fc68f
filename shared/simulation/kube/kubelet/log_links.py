"""The links of containers' logs that a kubelet keeps, by whose names programs know containers.

    <folder>/<pod>_<namespace>_<container>-<id>.log
        -> /var/log/pods/<namespace>_<pod>_<uid>/<container>/<restarts>.log

There are no logs behind them. The runtime has them made, for it knows the ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from shared.simulation.kube.kubelet.containers import RunningPod

NAME_MAX = 255 - len(".log")  # of a file; a longer name is cut, and with it the id


class LogLinks:
    """The folder of one node. Calls block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, pod: RunningPod, ids: Mapping[str, str]) -> None:
        """Link the logs of containers, whose ids are given by their names."""
        self.remove(pod)
        self._folder.mkdir(parents=True, exist_ok=True)
        namespace, name = pod.key.split("/")
        for container, container_id in ids.items():
            link = f"{name}_{namespace}_{container}-{container_id}"[:NAME_MAX]
            target = f"{namespace}_{name}_{pod.uid}/{container}/{pod.restarts}.log"
            (self._folder / f"{link}.log").symlink_to(f"/var/log/pods/{target}")

    def remove(self, pod: RunningPod) -> None:
        """Take the links of a pod away."""
        namespace, name = pod.key.split("/")
        for link in self._folder.glob(f"{name}_{namespace}_*.log"):
            link.unlink(missing_ok=True)
