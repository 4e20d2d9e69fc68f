"""Processes of pods on the simulated GPUs: they are there while a pod runs, as NVML sees it.

So what is in use cannot be destroyed, whoever wants it, and use can be told by pod: each process
is in its container's control group, and the container's log is linked, as on a real node. A pod
that uses nothing has no process. What one uses stands in annotations, which the pods that replace
it inherit.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import pathlib
import secrets
from collections.abc import Mapping

from services.rehearsal.story import Uses
from shared.domain.slots import device_of
from shared.simulation.gpu.control import Control
from shared.simulation.gpu.faults import FaultError
from shared.simulation.kube.kubelet.containers import Container, RunningPod
from shared.simulation.kube.kubelet.log_links import LogLinks
from shared.simulation.kube.kubelet.runtime import DiedError

_MEMORY = "rehearsal.slicewire.io/uses-mib"  # of each device; annotations of pods
_PERCENT = "rehearsal.slicewire.io/uses-sm"
MPS_PIPE = "CUDA_MPS_PIPE_DIRECTORY"  # CUDA's own word for whose client a program is to be
FIRST_PID = 40_000


def written(uses: Uses) -> dict[str, str]:
    """Write on a pod what its processes take."""
    return {_MEMORY: str(uses.memory_mib), _PERCENT: str(uses.sm_percent)}


def cgroup(uid: str, container_id: str) -> str:
    """Name the control group of a container as systemd and containerd do."""
    scored = uid.replace("-", "_")
    slices = f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{scored}.slice"
    return f"/{slices}/cri-containerd-{container_id}.scope"


class GpuProcesses:
    """The runtime of one node's kubelet; `links` is where the node links logs."""

    def __init__(self, hardware: Control, links: pathlib.Path) -> None:
        self._hardware = hardware
        self._links = LogLinks(links)
        self._pids = itertools.count(FIRST_PID)
        self._running: dict[str, list[int]] = {}  # pids by the pod's uid

    async def begin(self, pod: RunningPod) -> None:
        """Have a process of each container compute on the GPUs and MIG devices that it got.

        Raises:
            DiedError: a device is gone, is full, or takes clients of its MPS daemon alone.
        """
        names = [str(each["name"]) for each in pod.manifest["spec"]["containers"]]
        ids = {name: secrets.token_hex(32) for name in names}
        await asyncio.to_thread(self._links.add, pod, ids)
        uses = _uses(pod)
        if uses is None:
            return
        try:
            for name, container_id in ids.items():
                group = cgroup(pod.uid, container_id)
                await self._compute(pod, pod.containers[name], uses, group)
        except (FaultError, OSError) as error:
            await self.end(pod)
            raise DiedError(str(error)) from error

    async def end(self, pod: RunningPod) -> None:
        """Have them end, unless the node's boot has ended them."""
        for pid in self._running.pop(pod.uid, ()):
            with contextlib.suppress(FaultError, OSError):
                await self._hardware.end_process(pid)
        await asyncio.to_thread(self._links.remove, pod)

    async def _compute(self, pod: RunningPod, container: Container, uses: Uses, group: str) -> None:
        if not (devices := _devices(container)):
            return
        pid = next(self._pids)
        self._running.setdefault(pod.uid, []).append(pid)
        for uuid in devices:
            await self._hardware.start_process(
                uuid,
                pid,
                str(pod.manifest["metadata"]["name"]),
                uses.memory_mib,
                sm_percent=uses.sm_percent,
                cgroup=group,
                mps=MPS_PIPE in container.env,
            )


def _uses(pod: RunningPod) -> Uses | None:
    found: Mapping[str, str] = pod.manifest["metadata"].get("annotations", {})
    if _MEMORY not in found:
        return None
    return Uses(memory_mib=int(found[_MEMORY]), sm_percent=int(found[_PERCENT]))


def _devices(container: Container) -> list[str]:
    return sorted({device_of(slot) for ids in container.slots.values() for slot in ids})
