"""nvidia-ml-py's own MIG calls over the simulated C boundary, as Python and as C functions."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import byref, c_uint
from typing import Any

import pynvml
import pytest

from shared.simulation.gpu import install
from shared.simulation.gpu.local import LocalTransport
from tests.support.simulated_nvml import c_library, simulated_nvml

nvml: Any = pynvml
CUT = {"model": "a100-80gb", "instances": [{"profile": "3g.40gb", "start": 4}]}
HALF, SINGLE = 9, 19  # NVML's profile ids of 3g and 1g


@pytest.fixture(params=["python", "c"])
def node(request: pytest.FixtureRequest) -> Iterator[LocalTransport]:
    with simulated_nvml(CUT, "a100-80gb") as transport:
        if request.param == "c":
            install.replace(c_library(transport))
        nvml.nvmlInit()
        yield transport


@pytest.fixture
def gpu(node: LocalTransport) -> Any:
    return nvml.nvmlDeviceGetHandleByIndex(0)


def handle_list(kind: Any, ask: Any, *about: Any) -> list[Any]:
    """Ask for handles as callers of NVML do: with an array that is large enough."""
    found, count = (kind * 7)(), c_uint()
    ask(*about, found, byref(count))
    return list(found[: count.value])


def places(kind: Any, ask: Any, *about: Any) -> list[tuple[int, int]]:
    """Ask for placements in two calls: how many, then which."""
    count = c_uint()
    ask(*about, None, byref(count))
    found = (kind * count.value)()
    ask(*about, found, byref(count))
    return [(each.start, each.size) for each in found]


def test_mig_devices_and_gpus_know_each_other(gpu: Any) -> None:
    """A MIG device's handle is told from a GPU's, and leads back to it."""
    device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
    assert nvml.nvmlDeviceIsMigDeviceHandle(device)
    assert not nvml.nvmlDeviceIsMigDeviceHandle(gpu)
    parent = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device)
    assert nvml.nvmlDeviceGetUUID(parent) == nvml.nvmlDeviceGetUUID(gpu)
    assert nvml.nvmlDeviceGetName(device) == "NVIDIA A100-SXM4-80GB MIG 3g.40gb"


def test_gpu_instances_come_without_a_placement(gpu: Any) -> None:
    """The driver finds one; what is made is listed, found by id, and goes."""
    kind = nvml.c_nvmlGpuInstance_t
    listing = (nvml.nvmlDeviceGetGpuInstances, gpu, HALF)
    made = nvml.nvmlDeviceCreateGpuInstance(gpu, HALF)
    info = nvml.nvmlGpuInstanceGetInfo(made)
    assert (info.profileId, info.placement.start, info.placement.size) == (HALF, 0, 4)
    assert len(handle_list(kind, *listing)) == 2
    again = nvml.nvmlDeviceGetGpuInstanceById(gpu, info.id)
    assert nvml.nvmlGpuInstanceGetInfo(again).id == info.id
    assert nvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, HALF) == 0
    nvml.nvmlGpuInstanceDestroy(again)
    assert nvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, HALF) == 1
    assert len(handle_list(kind, *listing)) == 1


def test_a_gpu_instance_is_divided(gpu: Any) -> None:
    """Compute instances with and without a placement, each a MIG device of its own."""
    instance = nvml.nvmlDeviceCreateGpuInstance(gpu, HALF)
    info = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, 1, 0)
    assert (info.id, info.sliceCount, info.instanceCount) == (1, 2, 1)
    assert (info.multiprocessorCount, info.name) == (28, "MIG 2c.3g.40gb")
    ask = nvml.nvmlGpuInstanceGetComputeInstancePossiblePlacements
    kind = nvml.c_nvmlComputeInstancePlacement_t
    assert places(kind, ask, instance, 0) == [(0, 1), (1, 1), (2, 1)]
    wide = nvml.nvmlGpuInstanceCreateComputeInstance(instance, 1)
    narrow = nvml.nvmlGpuInstanceCreateComputeInstanceWithPlacement(
        instance, 0, byref(kind(start=2, size=1))
    )
    assert nvml.nvmlComputeInstanceGetInfo(wide).placement.size == 2
    assert nvml.nvmlComputeInstanceGetInfo(narrow).placement.start == 2
    assert nvml.nvmlGpuInstanceGetComputeInstanceRemainingCapacity(instance, 0) == 0
    listing = nvml.nvmlGpuInstanceGetComputeInstances
    assert len(handle_list(nvml.c_nvmlComputeInstance_t, listing, instance, 0)) == 1
    again = nvml.nvmlGpuInstanceGetComputeInstanceById(instance, 1)
    assert nvml.nvmlComputeInstanceGetInfo(again).profileId == 0
    nvml.nvmlComputeInstanceDestroy(again)
    with pytest.raises(nvml.NVMLError_NotFound):
        nvml.nvmlGpuInstanceGetComputeInstanceById(instance, 1)
    with pytest.raises(nvml.NVMLError_InUse):
        nvml.nvmlGpuInstanceDestroy(instance)


def test_places_are_listed_and_taken(gpu: Any) -> None:
    """Where an instance may stand, in any mode; there it is made."""
    ask, kind = nvml.nvmlDeviceGetGpuInstancePossiblePlacements, nvml.c_nvmlGpuInstancePlacement_t
    assert places(kind, ask, gpu, HALF) == [(0, 4), (4, 4)]
    other = nvml.nvmlDeviceGetHandleByIndex(1)
    assert places(kind, ask, other, SINGLE) == [(start, 1) for start in range(7)]
    wanted = kind(start=2, size=1)
    made = nvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, SINGLE, byref(wanted))
    assert nvml.nvmlGpuInstanceGetInfo(made).placement.start == 2
    with pytest.raises(nvml.NVMLError_InsufficientResources):
        nvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, SINGLE, byref(wanted))


def test_the_mode_is_set_by_a_status(node: LocalTransport, gpu: Any) -> None:
    """The call returns it and raises only for itself."""
    other = nvml.nvmlDeviceGetHandleByIndex(1)
    assert nvml.nvmlDeviceSetMigMode(other, nvml.NVML_DEVICE_MIG_ENABLE) == nvml.NVML_SUCCESS
    assert nvml.nvmlDeviceGetMigMode(other) == [1, 1]
    assert nvml.nvmlDeviceSetMigMode(gpu, 0) == nvml.NVML_ERROR_IN_USE
    assert nvml.nvmlDeviceGetMigMode(gpu) == [1, 0]
    node.fault({"nvml": {"call": "nvmlDeviceSetMigMode", "error": "NO_PERMISSION"}})
    with pytest.raises(nvml.NVMLError_NoPermission):
        nvml.nvmlDeviceSetMigMode(other, 0)


def test_processes_are_listed_in_two_calls(node: LocalTransport, gpu: Any) -> None:
    """None, one, and more than fit the first guess; a process without an instance says so."""
    assert nvml.nvmlDeviceGetComputeRunningProcesses(gpu) == []
    uuid = node.describe()["gpus"][1]["uuid"]
    for pid in range(40):
        node.start_process(uuid, pid, "python", 3)
    rows = nvml.nvmlDeviceGetComputeRunningProcesses(nvml.nvmlDeviceGetHandleByIndex(1))
    assert [(row.pid, row.usedGpuMemory >> 20) for row in rows] == [(pid, 3) for pid in range(40)]
    assert {row.gpuInstanceId for row in rows} == {0xFFFFFFFF}
