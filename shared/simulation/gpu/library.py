"""NVML's C symbols as functions: each writes what the owner answers where pynvml points.

`SIGNATURES` says of each symbol what its C arguments are. Arguments by value travel to the owner
as numbers; its answer comes back as one value for each out-argument, in order. A symbol that is
not here does not exist, as with an old driver: pynvml raises FunctionNotFound.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol

import pynvml

from shared.nvml.errors import Code

nvml: Any = pynvml  # nvidia-ml-py carries no types


class Transport(Protocol):
    """Carries one call to whoever holds the state."""

    def call(self, symbol: str, args: list[int]) -> tuple[int, list[Any]]:
        """Return NVML's code, and the out-arguments where it is SUCCESS."""


# ------------------------------------------------------------------------- kinds of argument


@dataclass(frozen=True, slots=True)
class In:
    """By value: a number, or a handle."""

    ctype: Any

    @property
    def takes(self) -> tuple[Any, ...]:
        """The C arguments that it stands for."""
        return (self.ctype,)


@dataclass(frozen=True, slots=True)
class Text:
    """Out: a buffer for a text, and its length."""

    takes: tuple[Any, ...] = (ctypes.c_void_p, ctypes.c_uint)

    def put(self, raw: tuple[Any, ...], value: str) -> Code:
        """Write the text with its end; refuse where it does not fit."""
        data = value.encode() + b"\0"
        if len(data) > _number(raw[1]):
            return Code.INSUFFICIENT_SIZE
        ctypes.memmove(_address(raw[0]), data, len(data))
        return Code.SUCCESS


@dataclass(frozen=True, slots=True)
class Out:
    """Out: a pointer to a number, a handle or a struct, in which `version` must be this one."""

    ctype: Any
    version: int = 0
    takes: tuple[Any, ...] = (ctypes.c_void_p,)

    def put(self, raw: tuple[Any, ...], value: Any) -> Code:
        """Write the value there."""
        target = self.ctype.from_address(_address(raw[0]))
        if self.version and target.version != self.version:
            return Code.ARGUMENT_VERSION_MISMATCH
        if isinstance(value, dict):
            _fill(target, value)
        else:
            target.value = value
        return Code.SUCCESS


@dataclass(frozen=True, slots=True)
class Words:
    """Out: a pointer to an array of words."""

    takes: tuple[Any, ...] = (ctypes.c_void_p,)

    def put(self, raw: tuple[Any, ...], value: list[int]) -> Code:
        """Write the words there; the caller said before how many fit."""
        target = (ctypes.c_ulonglong * len(value)).from_address(_address(raw[0]))
        for place, word in enumerate(value):
            target[place] = word
        return Code.SUCCESS


def _number(raw: Any) -> int:
    """Read a by-value argument: a number, one of ctypes' boxes, or an opaque pointer."""
    if isinstance(raw, ctypes._Pointer):
        return ctypes.cast(raw, ctypes.c_void_p).value or 0
    return int(getattr(raw, "value", raw) or 0)


def _address(raw: Any) -> int:
    """Find where an out-argument points: byref, an array or buffer, or the bare address."""
    if isinstance(raw, int):
        return raw
    return ctypes.addressof(getattr(raw, "_obj", raw))


def _fill(target: Any, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        field = getattr(target, name)
        if isinstance(value, dict):
            _fill(field, value)
        elif isinstance(value, str):
            setattr(target, name, value.encode())
        elif isinstance(field, ctypes._Pointer):  # a handle inside a struct
            place = ctypes.addressof(target) + getattr(type(target), name).offset
            ctypes.c_void_p.from_address(place).value = value
        else:
            setattr(target, name, value)


# --------------------------------------------------------------------------------- signatures

_HANDLE = In(ctypes.c_void_p)
_UINT = In(ctypes.c_uint)
_OUT_HANDLE = Out(ctypes.c_void_p)
_OUT_UINT = Out(ctypes.c_uint)
_OUT_INT = Out(ctypes.c_int)

Signature = tuple[In | Text | Out | Words, ...]

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
    "nvmlDeviceGetMigMode": (_HANDLE, _OUT_UINT, _OUT_UINT),
    "nvmlDeviceGetMaxMigDeviceCount": (_HANDLE, _OUT_UINT),
    "nvmlDeviceGetMigDeviceHandleByIndex": (_HANDLE, _UINT, _OUT_HANDLE),
    "nvmlDeviceGetGpuInstanceId": (_HANDLE, _OUT_UINT),
    "nvmlDeviceGetComputeInstanceId": (_HANDLE, _OUT_UINT),
    "nvmlDeviceGetAttributes_v2": (_HANDLE, Out(nvml.c_nvmlDeviceAttributes)),
    "nvmlDeviceGetGpuInstanceById": (_HANDLE, _UINT, _OUT_HANDLE),
    "nvmlGpuInstanceGetInfo": (_HANDLE, Out(nvml.c_nvmlGpuInstanceInfo_t)),
    "nvmlDeviceGetGpuInstanceProfileInfoV": (
        _HANDLE,
        _UINT,
        Out(nvml.c_nvmlGpuInstanceProfileInfo_v2_t, version=nvml.nvmlGpuInstanceProfileInfo_v2),
    ),
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
    number = _number(code)
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
) -> tuple[list[int], list[tuple[Text | Out | Words, tuple[Any, ...]]]]:
    """Split a call's arguments into the values to send and the places to write to."""
    values: list[int] = []
    places: list[tuple[Text | Out | Words, tuple[Any, ...]]] = []
    at = 0
    for argument in signature:
        mine = raw[at : at + len(argument.takes)]
        at += len(mine)
        if isinstance(argument, In):
            values.append(_number(mine[0]))
        else:
            places.append((argument, mine))
    return values, places
