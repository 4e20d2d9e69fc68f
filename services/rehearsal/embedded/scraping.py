"""Ports on which the services of a rehearsal show their metrics, and the file that names them.

`slicewire rehearse --targets FILE` asks for it; Prometheus reads the file by `file_sd_configs`.
Its labels are those that a PodMonitor would give the same services in a cluster.
"""

from __future__ import annotations

import json
import pathlib
import socket
from dataclasses import dataclass, field

HERE = "127.0.0.1"
JOB = "slicewire"


@dataclass(slots=True)
class Targets:
    """Gives each service a port, if there is a `file` to say so in; else nothing is served."""

    namespace: str
    file: pathlib.Path | None = None
    _ports: dict[tuple[str, str], int] = field(default_factory=dict)

    def flags(self, service: str, node: str = "") -> tuple[str, ...]:
        """Flags of a service by which it shows its metrics."""
        if self.file is None:
            return ()
        port = self._ports.setdefault((service, node), _free_port())
        return ("--health-port", str(port))

    def write(self) -> None:
        """Write the file, where one is asked for; blocks, so call it off the loop."""
        if self.file is not None:
            unfinished = self.file.with_name(f"{self.file.name}.new")
            unfinished.write_text(json.dumps(self._groups(), indent=2) + "\n", encoding="utf-8")
            unfinished.replace(self.file)  # so that no half of it is ever read

    def _groups(self) -> list[dict[str, object]]:
        return [
            {"targets": [f"{HERE}:{port}"], "labels": self._labels(service, node)}
            for (service, node), port in self._ports.items()
        ]

    def _labels(self, service: str, node: str) -> dict[str, str]:
        pod = "-".join(part for part in (JOB, service, node) if part)
        return {"job": JOB, "namespace": self.namespace, "pod": pod, "container": service}


def _free_port() -> int:
    """A port that nobody has now; until the service takes it, somebody else could."""
    with socket.socket() as asking:
        asking.bind((HERE, 0))
        port: int = asking.getsockname()[1]
        return port
