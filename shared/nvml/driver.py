"""The real driver: NVML through pynvml, turned into values of the domain.

It only reads; `writing` changes MIG modes and instances. Every call blocks; `threads` makes
them in threads of its own. What cannot change while a GPU stays is read once per opening, so a
look at an unchanged GPU costs four calls, and two more for each MIG device.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
from collections.abc import Hashable, Iterator
from typing import Any

import pynvml

from shared.domain.gpu import Engines, Gpu, MigDevice, MigMode
from shared.nvml import errors
from shared.nvml.port import GpuEvent, Versions

nvml: Any = pynvml  # nvidia-ml-py carries no types

_NO_INSTANCE = 0xFFFFFFFF  # an event that is about the whole GPU
_FALLEN_OFF_THE_BUS = 79
_WORD_BITS = 64
_NODE_WORDS = 16  # room for 1,024 NUMA nodes, the kernel's own limit


@contextlib.contextmanager
def asking(doing: str) -> Iterator[None]:
    """Turn pynvml's errors into the domain's, with the words for what was being done."""
    try:
        yield
    except nvml.NVMLError as error:
        raise errors.error_of(error.value, doing) from error


def _address(handle: Any) -> int:
    """Return the opaque value behind a handle: the only thing that identifies it."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


class PynvmlDriver:
    """NVML of this machine (or of the simulated C boundary, where that is installed)."""

    def __init__(self) -> None:
        self._gpus: dict[str, Gpu] = {}  # by UUID, as first read
        self._mig_devices: dict[str, MigDevice] = {}  # by UUID: an instance never changes
        self._uuids: dict[int, str] = {}  # by handle: a lost GPU does not say its UUID

    def open(self) -> Versions:
        """Initialise NVML and read the driver's versions."""
        with asking("opening NVML"):
            nvml.nvmlInit()
        try:
            with asking("reading the driver's version"):
                cuda = int(nvml.nvmlSystemGetCudaDriverVersion_v2())
                driver = str(nvml.nvmlSystemGetDriverVersion())
        except errors.NvmlError:
            self.close()  # NVML counts its openings: a failed one must not keep the driver busy
            raise
        return Versions(driver=driver, cuda=(cuda // 1000, cuda % 1000 // 10))

    def close(self) -> None:
        """Shut NVML down and forget what was read: another driver may answer next time."""
        self._gpus.clear()
        self._mig_devices.clear()
        self._uuids.clear()
        with asking("letting NVML go"):
            nvml.nvmlShutdown()

    def count(self) -> int:
        """How many GPUs NVML lists."""
        with asking("counting the GPUs"):
            return int(nvml.nvmlDeviceGetCount())

    def gpu(self, index: int) -> Gpu:
        """Read one GPU and its MIG devices.

        Raises:
            errors.NvmlError: the GPU is lost, or NVML refused.
        """
        with asking(f"reading GPU {index}"):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = str(nvml.nvmlDeviceGetUUID(handle))
            self._uuids[_address(handle)] = uuid
            # Asked each time, though it does not change: a lost GPU gives itself away here.
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
            if uuid not in self._gpus:
                self._gpus[uuid] = self._identify(handle, index, uuid, int(memory.total))
            mode = mig_mode(handle)
            devices = self._mig_devices_of(handle) if mode and mode.current else ()
        return dataclasses.replace(
            self._gpus[uuid], index=index, mig_mode=mode, mig_devices=devices
        )

    def _identify(self, handle: Any, index: int, uuid: str, total: int) -> Gpu:
        pci = nvml.nvmlDeviceGetPciInfo(handle)
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
        return Gpu(
            index=index,
            uuid=uuid,
            model=str(nvml.nvmlDeviceGetName(handle)),
            minor=int(nvml.nvmlDeviceGetMinorNumber(handle)),
            memory_mib=total >> 20,
            pci_bus_id=str(pci.busId),
            pci_device=int(pci.pciDeviceId),
            compute_capability=(int(major), int(minor)),
            numa_node=_numa_node(handle),
        )

    def _mig_devices_of(self, gpu: Any) -> tuple[MigDevice, ...]:
        found = []
        for index in range(int(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu))):
            try:
                handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
            except nvml.NVMLError_NotFound:
                continue  # indexes have holes
            uuid = str(nvml.nvmlDeviceGetUUID(handle))
            if uuid not in self._mig_devices:
                self._mig_devices[uuid] = _read_mig_device(gpu, handle, index, uuid)
            device = self._mig_devices[uuid]
            # A compute instance that is a part of its GPU instance is handed out to nobody.
            if device.compute_slices == device.gpu_slices:
                found.append(dataclasses.replace(device, index=index))
        return tuple(found)

    def watch(self) -> Hashable:
        """Make an empty event set."""
        with asking("making an event set"):
            event_set = nvml.nvmlEventSetCreate()
        return _Watch(event_set)

    def add(self, watch: Hashable, index: int) -> None:
        """Register a GPU's XIDs with an event set."""
        with asking(f"registering for the XIDs of GPU {index}"):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            self._uuids.setdefault(_address(handle), str(nvml.nvmlDeviceGetUUID(handle)))
            nvml.nvmlDeviceRegisterEvents(
                handle, nvml.nvmlEventTypeXidCriticalError, _event_set(watch)
            )

    def wait(self, watch: Hashable, timeout_s: float) -> GpuEvent | None:
        """Wait for an XID; a timeout is no error.

        Raises:
            errors.LostError: some GPU of the watch is lost, NVML does not say which.
        """
        try:
            event = nvml.nvmlEventSetWait_v2(_event_set(watch), int(timeout_s * 1000))
        except nvml.NVMLError_Timeout:
            return None
        except nvml.NVMLError as error:
            raise errors.error_of(error.value, "waiting for XIDs") from error
        xid, instance = int(event.eventData), int(event.gpuInstanceId)
        return GpuEvent(
            gpu_uuid=self._uuids.get(_address(event.device), ""),
            xid=xid,
            gpu_instance=None if instance == _NO_INSTANCE else instance,
            lost=xid == _FALLEN_OFF_THE_BUS,
        )

    def drop(self, watch: Hashable) -> None:
        """Free an event set."""
        with asking("freeing an event set"):
            nvml.nvmlEventSetFree(_event_set(watch))


class _Watch:
    """Keeps pynvml's event set, which cannot be hashed, behind an identity that can."""

    def __init__(self, event_set: Any) -> None:
        self.event_set = event_set


def _event_set(watch: Hashable) -> Any:
    if not isinstance(watch, _Watch):
        raise TypeError(f"{watch!r} is no watch of this driver")
    return watch.event_set


def handle_of(gpu: Gpu) -> Any:
    """Find the GPU at its index, and see that it still is the one that was looked at."""
    handle = nvml.nvmlDeviceGetHandleByIndex(gpu.index)
    if str(nvml.nvmlDeviceGetUUID(handle)) != gpu.uuid:
        raise errors.NotFoundError(
            f"another GPU than {gpu.uuid} has index {gpu.index} by now: look at the GPUs again"
        )
    return handle


def mig_mode(handle: Any) -> MigMode | None:
    """Read a GPU's MIG mode, None where it cannot do MIG."""
    try:
        current, pending = nvml.nvmlDeviceGetMigMode(handle)
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
        return None
    on = nvml.NVML_DEVICE_MIG_ENABLE
    return MigMode(current=current == on, pending=pending == on)


def _numa_node(handle: Any) -> int | None:
    """Return the first NUMA node near the GPU, None where NVML does not say.

    It is a hint for placement: whatever keeps NVML from giving it is no reason to lose the GPU.
    """
    try:
        words = nvml.nvmlDeviceGetMemoryAffinity(handle, _NODE_WORDS, nvml.NVML_AFFINITY_SCOPE_NODE)
    except nvml.NVMLError:
        return None
    mask = sum(int(word) << (_WORD_BITS * place) for place, word in enumerate(words))
    return (mask & -mask).bit_length() - 1 if mask else None


def _read_mig_device(gpu: Any, handle: Any, index: int, uuid: str) -> MigDevice:
    instance = int(nvml.nvmlDeviceGetGpuInstanceId(handle))
    compute = int(nvml.nvmlDeviceGetComputeInstanceId(handle))
    attributes = nvml.nvmlDeviceGetAttributes(handle)
    info = nvml.nvmlGpuInstanceGetInfo(nvml.nvmlDeviceGetGpuInstanceById(gpu, instance))
    return MigDevice(
        index=index,
        uuid=uuid,
        profile=_profile_name(gpu, int(info.profileId)),
        gpu_instance=instance,
        compute_instance=compute,
        start=int(info.placement.start),
        size=int(info.placement.size),
        memory_mib=int(attributes.memorySizeMB),
        multiprocessors=int(attributes.multiprocessorCount),
        gpu_slices=int(attributes.gpuInstanceSliceCount),
        compute_slices=int(attributes.computeInstanceSliceCount),
        engines=Engines(
            copy=int(attributes.sharedCopyEngineCount),
            decoder=int(attributes.sharedDecoderCount),
            encoder=int(attributes.sharedEncoderCount),
            jpeg=int(attributes.sharedJpegCount),
            ofa=int(attributes.sharedOfaCount),
        ),
    )


def _profile_name(gpu: Any, profile_id: int) -> str:
    """Find the profile's own name: NVML lists profiles by number, instances name them by id."""
    for number in range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            info = nvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, number)
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument):
            continue  # not on this board, or newer than this driver
        if info.id == profile_id:
            return str(info.name).removeprefix("MIG ")
    raise nvml.NVMLError(nvml.NVML_ERROR_NOT_FOUND)
