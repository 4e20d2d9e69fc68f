"""The use of GPUs through pynvml: memory, the time in which they compute, the processes on them.

The advertiser has a call of `threads.Nvml` made of `sample`, seldom, for it costs some calls a
device. What a card or driver cannot say is None, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pynvml

from shared.domain.gpu import Gpu
from shared.nvml.driver import asking, handle_of
from shared.nvml.port import ProcessUse, Sample

nvml: Any = pynvml  # nvidia-ml-py carries no types

# By their versions: the names without one raise an error of another kind with an old driver.
LISTS: tuple[Callable[[Any], list[Any]], ...] = (
    nvml.nvmlDeviceGetComputeRunningProcesses_v3,
    nvml.nvmlDeviceGetGraphicsRunningProcesses_v3,
    nvml.nvmlDeviceGetMPSComputeRunningProcesses_v3,
)
_WHOLE = 100  # percent; some drivers give more for an instant
_UNSAID = (
    nvml.NVMLError_NotSupported,
    nvml.NVMLError_FunctionNotFound,
    nvml.NVMLError_NoPermission,
)


class PynvmlSampler:
    """Use of this machine's GPUs (or of the simulated C boundary, where that is installed)."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}  # the newest sample of processes, by the GPU's UUID

    def sample(self, gpu: Gpu) -> tuple[Sample, ...]:
        """Look at a GPU and its MIG devices.

        The processes of a GPU in MIG mode are asked of its MIG devices, one by one.

        Raises:
            errors.NvmlError: the GPU is lost, or another one stands at its index by now.
        """
        with asking(f"reading the use of GPU {gpu.index}"):
            handle = handle_of(gpu)
            if not gpu.mig_enabled:
                processes = _processes(handle, self._shares(handle, gpu.uuid))
                return (_sample(handle, gpu.uuid, gpu, processes),)
            parts = [
                _sample(each, uuid, gpu, _processes(each, None))
                for uuid, each in _mig_devices(handle)
            ]
            return (_sample(handle, gpu.uuid, gpu, ()), *parts)

    def _shares(self, handle: Any, uuid: str) -> Mapping[int, int] | None:
        """Read how much each process computed of late; who is not named rested. None: unsaid."""
        try:
            samples = nvml.nvmlDeviceGetProcessUtilization(handle, self._seen.get(uuid, 0))
        except nvml.NVMLError_NotFound:
            return {}
        except (*_UNSAID, nvml.NVMLError_InsufficientSize):  # it grew between pynvml's two calls
            return None
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_SUCCESS:  # pynvml raises it where there is no sample
                return {}
            raise
        in_order = sorted(samples, key=lambda each: int(each.timeStamp))
        self._seen[uuid] = int(in_order[-1].timeStamp)
        return {int(each.pid): min(int(each.smUtil), _WHOLE) for each in in_order}


def _sample(handle: Any, uuid: str, gpu: Gpu, processes: tuple[ProcessUse, ...]) -> Sample:
    memory = _memory(handle)
    return Sample(
        uuid=uuid,
        gpu_uuid=gpu.uuid,
        memory_mib=int(memory.total) >> 20,
        used_mib=int(memory.used) >> 20,
        sm_percent=_busy(handle),
        processes=processes,
    )


def _memory(handle: Any) -> Any:
    """Read what is taken without what the driver keeps for itself, where it can tell."""
    try:
        return nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except (nvml.NVMLError_FunctionNotFound, nvml.NVMLError_NotSupported):
        return nvml.nvmlDeviceGetMemoryInfo(handle)


def _busy(handle: Any) -> int | None:
    try:
        return min(int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu), _WHOLE)
    except _UNSAID:
        return None


def _processes(handle: Any, shares: Mapping[int, int] | None) -> tuple[ProcessUse, ...]:
    """Read the processes on a device; one that is in several lists is one process."""
    memory: dict[int, int | None] = {}
    for read in LISTS:
        for each in _listed(handle, read):
            pid, used = int(each.pid), each.usedGpuMemory
            memory.setdefault(pid, None)
            if used is not None:
                memory[pid] = max(memory[pid] or 0, int(used) >> 20)
    return tuple(
        ProcessUse(
            pid=pid,
            memory_mib=taken,
            sm_percent=None if shares is None else shares.get(pid, 0),
        )
        for pid, taken in sorted(memory.items())
    )


def _listed(handle: Any, read: Callable[[Any], list[Any]]) -> list[Any]:
    try:
        return read(handle)
    except _UNSAID:
        return []


def _mig_devices(gpu: Any) -> Iterator[tuple[str, Any]]:
    """Find all MIG devices, also those that are a part of their GPU instance."""
    for index in range(int(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu))):
        try:
            handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
        except nvml.NVMLError_NotFound:
            continue  # indexes have holes
        yield str(nvml.nvmlDeviceGetUUID(handle)), handle
