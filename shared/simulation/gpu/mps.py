"""MPS daemons of a simulated node, and what compute mode and daemon let a process do.

The owner attaches the stand-in programs (`mps_control`) while they run; `holding` asks for each
process that is to compute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shared.nvml.errors import Code
from shared.simulation.gpu import faults, handles
from shared.simulation.gpu.state import Gpu, MpsDaemon, Node

EXCLUSIVE_PROCESS = 3
SERVER = "nvidia-cuda-mps-server"
_MODES = (0, 2, EXCLUSIVE_PROCESS)  # 1 was for one thread, and is no more

Out = list[Any]


def attach(node: Node, gpu: Gpu, pid: int) -> MpsDaemon:
    """A control daemon begins to serve a GPU.

    Raises:
        FaultError: it cannot live here now.
    """
    if down(node, gpu):
        raise faults.FaultError(f"no MPS daemon lives on GPU {gpu.index} until that is healed")
    daemon = MpsDaemon(pid, gpu.index)
    node.mps.append(daemon)
    return daemon


def detach(node: Node, daemon: MpsDaemon) -> None:
    """It has ended, and its server with it; a boot has ended it already."""
    if daemon in node.mps:
        node.mps.remove(daemon)


def down(node: Node, gpu: Gpu) -> bool:
    """Whether daemons of this GPU die."""
    return any(each.gpu in (None, gpu.index) for each in node.mps_down)


def servers(node: Node) -> list[MpsDaemon]:
    """The daemons whose servers hold their GPU; one stays until its daemon ends."""
    return [each for each in node.mps if each.server]


def admit(node: Node, gpu: Gpu, *, client: bool) -> None:
    """Let a process compute on the GPU: through its MPS daemon if it is to be a client of one.

    A client that meets no daemon computes by itself, without any limit.

    Raises:
        FaultError: the GPU is for clients of its daemon alone, as CUDA refuses it.
    """
    daemon = next((each for each in node.mps if each.gpu == gpu.index), None)
    if client and daemon is not None:
        daemon.server = True
    elif gpu.compute_mode == EXCLUSIVE_PROCESS:
        raise faults.FaultError(
            f"{gpu.uuid} is in EXCLUSIVE_PROCESS mode: what is no client of its MPS daemon gets"
            " CUDA_ERROR_DEVICE_UNAVAILABLE"
        )


def _mode(node: Node, _process: str, handle: int) -> Out:
    return [handles.gpu_behind(node, handle).compute_mode]


def _set_mode(node: Node, _process: str, handle: int, mode: int) -> Out:
    gpu = handles.gpu_behind(node, handle)
    if mode not in _MODES:
        raise handles.RefusedError(Code.INVALID_ARGUMENT)
    gpu.compute_mode = mode
    return []


READING: Mapping[str, Callable[..., Out]] = {"nvmlDeviceGetComputeMode": _mode}
WRITING: Mapping[str, Callable[..., Out]] = {"nvmlDeviceSetComputeMode": _set_mode}
