"""Kinds of C argument: how each reads what pynvml passes, or writes where pynvml points.

`library.SIGNATURES` is made of them. Arguments arrive as Python numbers, as ctypes' boxes and
references, or, behind real C functions, as bare addresses.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.nvml.errors import Code


@dataclass(frozen=True, slots=True)
class In:
    """By value: a number, or a handle."""

    ctype: Any

    @property
    def takes(self) -> tuple[Any, ...]:
        """The C arguments that it stands for."""
        return (self.ctype,)

    def read(self, raw: Sequence[Any]) -> list[int]:
        """Read the number to send."""
        return [number(raw[0])]


@dataclass(frozen=True, slots=True)
class InStruct:
    """By reference: a struct of numbers, which travel in this order."""

    ctype: Any
    fields: tuple[str, ...]
    takes: tuple[Any, ...] = (ctypes.c_void_p,)

    def read(self, raw: Sequence[Any]) -> list[int]:
        """Read the numbers to send."""
        struct = self.ctype.from_address(_address(raw[0]))
        return [getattr(struct, name) for name in self.fields]


@dataclass(frozen=True, slots=True)
class Text:
    """Out: a buffer for a text, and its length."""

    takes: tuple[Any, ...] = (ctypes.c_void_p, ctypes.c_uint)

    def put(self, raw: Sequence[Any], value: str) -> Code:
        """Write the text with its end; refuse where it does not fit."""
        data = value.encode() + b"\0"
        if len(data) > number(raw[1]):
            return Code.INSUFFICIENT_SIZE
        ctypes.memmove(_address(raw[0]), data, len(data))
        return Code.SUCCESS


@dataclass(frozen=True, slots=True)
class Out:
    """Out: a pointer to a number, a handle or a struct, in which `version` must be this one."""

    ctype: Any
    version: int = 0
    takes: tuple[Any, ...] = (ctypes.c_void_p,)

    def put(self, raw: Sequence[Any], value: Any) -> Code:
        """Write the value there."""
        target = self.ctype.from_address(_address(raw[0]))
        if self.version and target.version != self.version:
            return Code.ARGUMENT_VERSION_MISMATCH
        _write(target, value)
        return Code.SUCCESS


@dataclass(frozen=True, slots=True)
class Words:
    """Out: a pointer to an array of words."""

    takes: tuple[Any, ...] = (ctypes.c_void_p,)

    def put(self, raw: Sequence[Any], value: list[int]) -> Code:
        """Write the words there; the caller said before how many fit."""
        _write_rows(ctypes.c_ulonglong, raw[0], value)
        return Code.SUCCESS


@dataclass(frozen=True, slots=True)
class Rows:
    """Out: an array that is large enough or NULL, then where their count goes."""

    ctype: Any
    takes: tuple[Any, ...] = (ctypes.c_void_p, ctypes.c_void_p)

    def put(self, raw: Sequence[Any], value: list[Any]) -> Code:
        """Write the rows, where there is an array for them, and how many there are."""
        if raw[0] is not None:
            _write_rows(self.ctype, raw[0], value)
        ctypes.c_uint.from_address(_address(raw[1])).value = len(value)
        return Code.SUCCESS


@dataclass(frozen=True, slots=True)
class CountedRows:
    """In and out: how many rows the array beside it holds; the caller asks first with none."""

    ctype: Any
    rows_first: bool = False
    takes: tuple[Any, ...] = (ctypes.c_void_p, ctypes.c_void_p)

    def put(self, raw: Sequence[Any], value: list[Any]) -> Code:
        """Write the rows where they fit; in any case how many there are."""
        rows, counted = raw if self.rows_first else reversed(raw)
        count = ctypes.c_uint.from_address(_address(counted))
        held, count.value = count.value, len(value)
        if held < len(value):
            return Code.INSUFFICIENT_SIZE
        if value:
            _write_rows(self.ctype, rows, value)
        return Code.SUCCESS


Reads = In | InStruct
Writes = Text | Out | Words | Rows | CountedRows


def number(raw: Any) -> int:
    """Read a by-value argument: a number, one of ctypes' boxes, or an opaque pointer."""
    if isinstance(raw, ctypes._Pointer):
        return ctypes.cast(raw, ctypes.c_void_p).value or 0
    return int(getattr(raw, "value", raw) or 0)


def _address(raw: Any) -> int:
    """Find where an argument points: byref, an array or buffer, or the bare address."""
    if isinstance(raw, int):
        return raw
    return ctypes.addressof(getattr(raw, "_obj", raw))


def _write_rows(ctype: Any, raw: Any, values: list[Any]) -> None:
    base, size = _address(raw), ctypes.sizeof(ctype)
    for place, value in enumerate(values):
        _write(ctype.from_address(base + place * size), value)


def _write(target: Any, value: Any) -> None:
    if isinstance(value, dict):
        _fill(target, value)
    else:
        target.value = value


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
