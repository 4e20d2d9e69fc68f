"""Processes of pods on the simulated GPUs: they are there while a pod runs, as NVML sees it.

So what is in use cannot be destroyed, whoever wants it. A pod that uses nothing has no process.
What one uses stands in an annotation, which the pods that replace it inherit.
"""

from __future__ import annotations

import contextlib
import itertools

from shared.domain.slots import device_of
from shared.simulation.gpu.control import Control
from shared.simulation.gpu.faults import FaultError
from shared.simulation.kube.kubelet.containers import RunningPod
from shared.simulation.kube.kubelet.runtime import DiedError

USES = "rehearsal.slicewire.io/uses-mib"  # of each device; an annotation of pods
FIRST_PID = 40_000


class GpuProcesses:
    """The runtime of one node's kubelet."""

    def __init__(self, hardware: Control) -> None:
        self._hardware = hardware
        self._pids = itertools.count(FIRST_PID)
        self._running: dict[str, int] = {}  # pid by the pod's uid

    async def begin(self, pod: RunningPod) -> None:
        """Have the pod's process compute on each GPU and MIG device that its containers got.

        Raises:
            DiedError: a device is gone, or is full.
        """
        memory = pod.manifest["metadata"].get("annotations", {}).get(USES)
        devices = _devices(pod)
        if memory is None or not devices:
            return
        pid = self._running[pod.uid] = next(self._pids)
        name = str(pod.manifest["metadata"]["name"])
        try:
            for uuid in devices:
                await self._hardware.start_process(uuid, pid, name, int(memory))
        except (FaultError, OSError) as error:
            await self.end(pod)
            raise DiedError(str(error)) from error

    async def end(self, pod: RunningPod) -> None:
        """Have it end, unless the node's boot has ended it."""
        pid = self._running.pop(pod.uid, None)
        if pid is not None:
            with contextlib.suppress(FaultError, OSError):
                await self._hardware.end_process(pid)


def _devices(pod: RunningPod) -> list[str]:
    slots = [
        slot for each in pod.containers.values() for ids in each.slots.values() for slot in ids
    ]
    return sorted({device_of(slot) for slot in slots})
