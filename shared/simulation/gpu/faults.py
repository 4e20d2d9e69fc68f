"""Fault maps, as rehearsals write them, become faults; wrong ones are refused with the reason.

    {gpu: 0, xid: 48}                        an XID event; 79 also loses the GPU
    {gpu: 0, xid: 94, instance: 1}           the same for the MIG device of this index
    {gpu: 0, lost: true}                     the GPU answers GPU_IS_LOST
    {nvml: {call: nvmlDeviceGetUUID, nth: 3, error: UNKNOWN, times: 2}}
    {nvml: {call: nvmlDeviceGetMemoryInfo, gpu: 1, delay: never}}
    {clients: [{gpu: 0, name: dcgm, pid: 4711}]}   processes of the host hold GPUs open
    {mps: down}                              every MPS daemon dies, and none starts
    {gpu: 0, mps: down}                      the same on one GPU
    {modeStaysPending: true}                 a new MIG mode stays pending until the node reboots
    {gpu: 0, modeStaysPending: reset}        on one GPU, until it is reset; or reboot, or healed

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
from shared.simulation.gpu.state import CallFault, Client, MpsDown, StuckMode

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0}
ALWAYS = "all"  # a number of times
_UNTIL = ("reset", "reboot", "healed")


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


@dataclass(frozen=True, slots=True)
class ClientsFault:
    """Processes that are no pods hold GPUs open."""

    clients: tuple[Client, ...]


Fault = XidFault | LostFault | ClientsFault | MpsDown | StuckMode | CallFault


def read(fault: Mapping[str, Any], symbols: Collection[str]) -> Fault:
    """Read a fault map; `symbols` are the calls that can go wrong.

    Raises:
        FaultError: it has unknown, missing or impossible parts.
    """
    match dict(fault):
        case {"gpu": int(gpu), "xid": int(xid), **rest} if not rest or set(rest) == {"instance"}:
            return XidFault(gpu, xid, rest.get("instance"))
        case {"gpu": int(gpu), "lost": True, **rest} if not rest:
            return LostFault(gpu)
        case {"clients": [*clients], **rest} if clients and not rest:
            return ClientsFault(tuple(_client(each) for each in clients))
        case {"mps": "down", **rest} if set(rest) <= {"gpu"}:
            return MpsDown(rest.get("gpu"))
        case {"modeStaysPending": until, **rest} if set(rest) <= {"gpu"}:
            return StuckMode(rest.get("gpu"), _until(until))
        case {"nvml": Mapping() as call, **rest} if not rest:
            return _call_fault(call, symbols)
    raise FaultError(
        f"{dict(fault)!r} is no fault of a GPU: write gpu and xid (and instance), gpu and"
        " lost: true, clients, mps: down, modeStaysPending, or nvml with call and error or delay"
    )


def _client(row: object) -> Client:
    match row:
        case {"gpu": int(gpu), "name": str(name), "pid": int(pid), **rest} if not rest:
            return Client(gpu, name, pid)
    raise FaultError(f"client {row!r}: write {{gpu: <index>, name: <program>, pid: <number>}}")


def _until(value: object) -> str:
    if value is True:
        return "reboot"
    if value in _UNTIL:
        return str(value)
    raise FaultError(f"modeStaysPending is {value!r}: write true, or one of {', '.join(_UNTIL)}")


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
    times = call.get("times", 1 if "error" in call else ALWAYS)
    return CallFault(
        call=name,
        gpu=call.get("gpu"),
        nth=int(call.get("nth", 1)),
        times=None if times == ALWAYS else int(times),
        code=_code(str(call["error"])) if "error" in call else None,
        delay_s=None if call.get("delay") == "never" else seconds(call.get("delay", 0)),
    )


def _code(name: str) -> Code:
    try:
        return Code[name.removeprefix("NVML_ERROR_")]
    except KeyError:
        near = difflib.get_close_matches(name, Code.__members__, n=1, cutoff=0.4) or ["UNKNOWN"]
        raise FaultError(f"NVML has no error {name!r}: did you mean {near[0]}?") from None


def seconds(value: object) -> float:
    """Read a duration, such as 500ms or 2s.

    Raises:
        FaultError: it is none.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    found = _DURATION.fullmatch(str(value))
    if found is None:
        raise FaultError(f"delay is {value!r}: write a duration such as 500ms or 2s, or never")
    return float(found[1]) * _SECONDS[found[2]]
