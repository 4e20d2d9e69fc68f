"""Fault maps, as rehearsals write them, become faults; wrong ones are refused with the reason.

    {gpu: 0, xid: 48}                        an XID event; 79 also loses the GPU
    {gpu: 0, xid: 94, instance: 1}           the same for the MIG device of this index
    {gpu: 0, lost: true}                     the GPU answers GPU_IS_LOST
    {nvml: {call: nvmlDeviceGetUUID, nth: 3, error: UNKNOWN, times: 2}}
    {nvml: {call: nvmlDeviceGetMemoryInfo, gpu: 1, delay: never}}

`nth` counts from the fault on (default 1); `times` is how many calls go wrong (default 1 with
`error`, all with `delay`; `all` is also a number of times); `delay` is a duration or `never`;
`gpu` limits a call fault to calls about that GPU.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from shared.nvml.errors import Code
from shared.simulation.gpu.state import CallFault

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0}


class FaultError(ValueError):
    """A fault map that means nothing; the text says what to write."""


@dataclass(frozen=True, slots=True)
class XidFault:
    """A GPU, or one of its MIG devices, reports an XID."""

    gpu: int
    xid: int
    instance: int | None


@dataclass(frozen=True, slots=True)
class LostFault:
    """A GPU falls off the bus without saying so."""

    gpu: int


def read(fault: Mapping[str, Any], symbols: Collection[str]) -> XidFault | LostFault | CallFault:
    """Read a fault map; `symbols` are the calls that can go wrong.

    Raises:
        FaultError: it has unknown, missing or impossible parts.
    """
    match dict(fault):
        case {"gpu": int(gpu), "xid": int(xid), **rest} if not rest or set(rest) == {"instance"}:
            return XidFault(gpu, xid, rest.get("instance"))
        case {"gpu": int(gpu), "lost": True, **rest} if not rest:
            return LostFault(gpu)
        case {"nvml": Mapping() as call, **rest} if not rest:
            return _call_fault(call, symbols)
    raise FaultError(
        f"{dict(fault)!r} is no fault of a GPU: write gpu and xid (and instance), gpu and"
        " lost: true, or nvml with call and error or delay"
    )


def _call_fault(call: Mapping[str, Any], symbols: Collection[str]) -> CallFault:
    unknown = set(call) - {"call", "gpu", "nth", "error", "times", "delay"}
    if unknown or "call" not in call or ("error" in call) == ("delay" in call):
        raise FaultError(
            f"nvml fault {dict(call)!r}: write call, and error or delay;"
            " beside them gpu, nth, times"
        )
    name = str(call["call"])
    if name not in symbols:
        near = difflib.get_close_matches(name, symbols, n=1, cutoff=0.4) or sorted(symbols)
        raise FaultError(f"{name!r} is not simulated: did you mean {near[0]}?")
    times = call.get("times", 1 if "error" in call else "all")
    return CallFault(
        call=name,
        gpu=call.get("gpu"),
        nth=int(call.get("nth", 1)),
        times=None if times == "all" else int(times),
        code=_code(str(call["error"])) if "error" in call else None,
        delay_s=_delay(call["delay"]) if "delay" in call else None,
    )


def _code(name: str) -> Code:
    try:
        return Code[name.removeprefix("NVML_ERROR_")]
    except KeyError:
        near = difflib.get_close_matches(name, Code.__members__, n=1, cutoff=0.4) or ["UNKNOWN"]
        raise FaultError(f"NVML has no error {name!r}: did you mean {near[0]}?") from None


def _delay(value: object) -> float | None:
    if value == "never":
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    found = _DURATION.fullmatch(str(value))
    if found is None:
        raise FaultError(f"delay is {value!r}: write a duration such as 500ms or 2s, or never")
    return float(found[1]) * _SECONDS[found[2]]
