"""NVML's C symbols as functions: each writes what the owner answers where pynvml points.

`SIGNATURES` says of each symbol what its C arguments are. Arguments by value travel to the owner
as numbers; its answer comes back as one value for each out-argument, in order. A symbol that is
not here does not exist, as with an old driver: pynvml raises FunctionNotFound.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Protocol

import pynvml

from shared.nvml.errors import Code
from shared.simulation.gpu import arguments
from shared.simulation.gpu.arguments import CountedRows, In, InStruct, Out, Rows, Text, Words

nvml: Any = pynvml  # nvidia-ml-py carries no types


class Transport(Protocol):
    """Carries one call to whoever holds the state."""

    def call(self, symbol: str, args: list[int]) -> tuple[int, list[Any]]:
        """Return NVML's code, and the out-arguments where it is SUCCESS."""


# --------------------------------------------------------------------------------- signatures

_HANDLE = In(ctypes.c_void_p)
_UINT = In(ctypes.c_uint)
_OUT_HANDLE = Out(ctypes.c_void_p)
_OUT_UINT = Out(ctypes.c_uint)
_OUT_INT = Out(ctypes.c_int)

_MODE = _UINT
_PLACEMENT = ("start", "size")
_RUNNING = (_HANDLE, CountedRows(nvml.c_nvmlProcessInfo_t))

Signature = tuple[arguments.Reads | arguments.Writes, ...]

SIGNATURES: Mapping[str, Signature] = {
    "nvmlInitWithFlags": (_UINT,),
    "nvmlShutdown": (),
    "nvmlSystemGetDriverVersion": (Text(),),
    "nvmlSystemGetCudaDriverVersion_v2": (_OUT_INT,),
    "nvmlDeviceGetCount_v2": (_OUT_UINT,),
    "nvmlDeviceGetHandleByIndex_v2": (_UINT, _OUT_HANDLE),
    "nvmlDeviceGetUUID": (_HANDLE, Text()),
    "nvmlDeviceGetName": (_HANDLE, Text()),
    "nvmlDeviceGetMinorNumber": (_HANDLE, _OUT_UINT),
    "nvmlDeviceGetPciInfo_v3": (_HANDLE, Out(nvml.nvmlPciInfo_t)),
    "nvmlDeviceGetMemoryInfo": (_HANDLE, Out(nvml.c_nvmlMemory_t)),
    "nvmlDeviceGetCudaComputeCapability": (_HANDLE, _OUT_INT, _OUT_INT),
    "nvmlDeviceGetMemoryAffinity": (_HANDLE, _UINT, Words(), _UINT),
    "nvmlDeviceGetMemoryInfo_v2": (
        _HANDLE,
        Out(nvml.c_nvmlMemory_v2_t, version=nvml.nvmlMemory_v2),
    ),
    "nvmlDeviceGetComputeRunningProcesses_v3": _RUNNING,
    "nvmlDeviceGetGraphicsRunningProcesses_v3": _RUNNING,
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": _RUNNING,
    "nvmlDeviceGetUtilizationRates": (_HANDLE, Out(nvml.c_nvmlUtilization_t)),
    "nvmlDeviceGetProcessUtilization": (
        _HANDLE,
        CountedRows(nvml.c_nvmlProcessUtilizationSample_t, rows_first=True),
        In(ctypes.c_ulonglong),
    ),
    "nvmlDeviceGetComputeMode": (_HANDLE, _OUT_UINT),
    "nvmlDeviceSetComputeMode": (_HANDLE, _MODE),
    "nvmlDeviceGetMigMode": (_HANDLE, _OUT_UINT, _OUT_UINT),
    "nvmlDeviceSetMigMode": (_HANDLE, _MODE, _OUT_UINT),
    "nvmlDeviceGetMaxMigDeviceCount": (_HANDLE, _OUT_UINT),
    "nvmlDeviceGetMigDeviceHandleByIndex": (_HANDLE, _UINT, _OUT_HANDLE),
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": (_HANDLE, _OUT_HANDLE),
    "nvmlDeviceIsMigDeviceHandle": (_HANDLE, _OUT_UINT),
    "nvmlDeviceGetGpuInstanceId": (_HANDLE, _OUT_UINT),
    "nvmlDeviceGetComputeInstanceId": (_HANDLE, _OUT_UINT),
    "nvmlDeviceGetAttributes_v2": (_HANDLE, Out(nvml.c_nvmlDeviceAttributes)),
    "nvmlDeviceGetGpuInstanceProfileInfoV": (
        _HANDLE,
        _UINT,
        Out(nvml.c_nvmlGpuInstanceProfileInfo_v2_t, version=nvml.nvmlGpuInstanceProfileInfo_v2),
    ),
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2": (
        _HANDLE,
        _UINT,
        Rows(nvml.c_nvmlGpuInstancePlacement_t),
    ),
    "nvmlDeviceGetGpuInstanceRemainingCapacity": (_HANDLE, _UINT, _OUT_UINT),
    "nvmlDeviceCreateGpuInstance": (_HANDLE, _UINT, _OUT_HANDLE),
    "nvmlDeviceCreateGpuInstanceWithPlacement": (
        _HANDLE,
        _UINT,
        InStruct(nvml.c_nvmlGpuInstancePlacement_t, _PLACEMENT),
        _OUT_HANDLE,
    ),
    "nvmlGpuInstanceDestroy": (_HANDLE,),
    "nvmlDeviceGetGpuInstances": (_HANDLE, _UINT, Rows(ctypes.c_void_p)),
    "nvmlDeviceGetGpuInstanceById": (_HANDLE, _UINT, _OUT_HANDLE),
    "nvmlGpuInstanceGetInfo": (_HANDLE, Out(nvml.c_nvmlGpuInstanceInfo_t)),
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV": (
        _HANDLE,
        _UINT,
        _UINT,
        Out(
            nvml.c_nvmlComputeInstanceProfileInfo_v2_t,
            version=nvml.nvmlComputeInstanceProfileInfo_v2,
        ),
    ),
    "nvmlGpuInstanceGetComputeInstancePossiblePlacements": (
        _HANDLE,
        _UINT,
        Rows(nvml.c_nvmlComputeInstancePlacement_t),
    ),
    "nvmlGpuInstanceGetComputeInstanceRemainingCapacity": (_HANDLE, _UINT, _OUT_UINT),
    "nvmlGpuInstanceCreateComputeInstance": (_HANDLE, _UINT, _OUT_HANDLE),
    "nvmlGpuInstanceCreateComputeInstanceWithPlacement": (
        _HANDLE,
        _UINT,
        InStruct(nvml.c_nvmlComputeInstancePlacement_t, _PLACEMENT),
        _OUT_HANDLE,
    ),
    "nvmlComputeInstanceDestroy": (_HANDLE,),
    "nvmlGpuInstanceGetComputeInstances": (_HANDLE, _UINT, Rows(ctypes.c_void_p)),
    "nvmlGpuInstanceGetComputeInstanceById": (_HANDLE, _UINT, _OUT_HANDLE),
    "nvmlComputeInstanceGetInfo_v2": (_HANDLE, Out(nvml.c_nvmlComputeInstanceInfo_t)),
    "nvmlEventSetCreate": (_OUT_HANDLE,),
    "nvmlDeviceRegisterEvents": (_HANDLE, In(ctypes.c_ulonglong), _HANDLE),
    "nvmlEventSetWait_v2": (_HANDLE, Out(nvml.c_nvmlEventData_t), _UINT),
    "nvmlEventSetFree": (_HANDLE,),
}


# -------------------------------------------------------------------------------- the library


def library(transport: Transport) -> SimpleNamespace:
    """Make what stands in for `CDLL("libnvidia-ml.so.1")`: its attributes are the symbols."""
    functions = {
        symbol: _function(symbol, signature, transport) for symbol, signature in SIGNATURES.items()
    }
    return SimpleNamespace(nvmlErrorString=error_string, **functions)


def error_string(code: Any) -> bytes:
    """Say a return code in words; pynvml sets `restype` here, so it must be a plain function."""
    number = arguments.number(code)
    return (Code(number).name if number in set(Code) else f"code {number}").encode()


def _function(symbol: str, signature: Signature, transport: Transport) -> Callable[..., int]:
    def call(*raw: Any) -> int:
        values, places = _sort(signature, raw)
        code, out = transport.call(symbol, values)
        if code != Code.SUCCESS:
            return int(code)
        for (argument, where), value in zip(places, out, strict=True):
            if problem := argument.put(where, value):
                return int(problem)
        return int(Code.SUCCESS)

    call.__name__ = symbol
    return call


def _sort(
    signature: Signature, raw: tuple[Any, ...]
) -> tuple[list[int], list[tuple[arguments.Writes, tuple[Any, ...]]]]:
    """Split a call's arguments into the values to send and the places to write to."""
    values: list[int] = []
    places: list[tuple[arguments.Writes, tuple[Any, ...]]] = []
    at = 0
    for argument in signature:
        mine = raw[at : at + len(argument.takes)]
        at += len(mine)
        if isinstance(argument, arguments.Reads):
            values += argument.read(mine)
        else:
            places.append((argument, mine))
    return values, places
