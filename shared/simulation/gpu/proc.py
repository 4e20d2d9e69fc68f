"""Writes what /proc of a simulated node shows of its GPUs: who holds them, and capabilities.

    <root>/driver/nvidia-caps/mig-minors        the numbers of the nodes that guard MIG instances
    <root>/<pid>/cmdline, <root>/<pid>/fd/<n>   a process, and the device nodes that it holds open
    <root>/<pid>/cgroup                         the control group of its container, or of the host

Services that are told to take <root> for /proc see the simulated node's processes only.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from shared.simulation.gpu import capabilities
from shared.simulation.gpu.holding import Holder


class ProcTree:
    """The tree under one root, in step with the engine that the owner holds. Calls block."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._written: dict[int, Holder] = {}

    def begin(self, gpus: int) -> None:
        """Write what never changes."""
        folder = self._root / "driver" / "nvidia-caps"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "mig-minors").write_text(capabilities.listing(gpus), encoding="utf-8")

    def update(self, holders: Iterable[Holder]) -> None:
        """Have exactly these processes hold exactly these GPUs."""
        wanted = {holder.pid: holder for holder in holders}
        for pid in [pid for pid, held in self._written.items() if wanted.get(pid) != held]:
            shutil.rmtree(self._root / str(pid))
            del self._written[pid]
        for holder in wanted.values():
            if holder.pid not in self._written:
                self._add(holder)

    def _add(self, holder: Holder) -> None:
        descriptors = self._root / str(holder.pid) / "fd"
        descriptors.mkdir(parents=True)
        (descriptors.parent / "cmdline").write_bytes(holder.name.encode() + b"\0")
        (descriptors.parent / "cgroup").write_text(f"0::{holder.cgroup}\n", encoding="utf-8")
        paths = ["/dev/nvidiactl", *(f"/dev/nvidia{minor}" for minor in holder.minors)]
        for number, path in enumerate(paths, start=3):
            (descriptors / str(number)).symlink_to(path)
        self._written[holder.pid] = holder
