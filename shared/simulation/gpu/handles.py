"""Handles of the simulated driver: numbers that mean nothing outside, and what stands behind them.

`answers` resolves the handles of each call here. A handle is a kind and a number: a GPU's index,
an instance's serial, an event set's number.
"""

from __future__ import annotations

from typing import Any

from shared.nvml.errors import Code
from shared.simulation.gpu.state import EventSet, Gpu, Instance, Node

GPU, MIG_DEVICE, GPU_INSTANCE, EVENT_SET = (kind << 32 for kind in range(1, 5))
NUMBER = 0xFFFFFFFF


class RefusedError(Exception):
    """The simulated driver answers with a code instead of values."""

    def __init__(self, code: Code) -> None:
        super().__init__(code.name)
        self.code = code


def gpu_of(node: Node, symbol: str, args: list[Any]) -> int | None:
    """Return the index of the GPU that a call is about, None for the whole node's calls."""
    if not args or not isinstance(args[0], int):
        return None
    if symbol == "nvmlDeviceGetHandleByIndex_v2":
        return args[0]
    kind, number = args[0] & ~NUMBER, args[0] & NUMBER
    if kind == GPU:
        return number
    if kind in (MIG_DEVICE, GPU_INSTANCE):
        return next((gpu.index for gpu, each in _instances(node) if each.serial == number), None)
    return None


def event_set_behind(node: Node, handle: int) -> EventSet:
    """Return the event set behind a handle."""
    event_set = node.event_sets.get(handle & NUMBER)
    if event_set is None or handle & ~NUMBER != EVENT_SET:
        raise RefusedError(Code.INVALID_ARGUMENT)
    return event_set


def _instances(node: Node) -> list[tuple[Gpu, Instance]]:
    return [(gpu, instance) for gpu in node.gpus for instance in gpu.instances]


def gpu_behind(node: Node, handle: int) -> Gpu:
    """Return the GPU behind a handle; a MIG device's handle is none."""
    index = handle & NUMBER
    if handle & ~NUMBER != GPU or index >= len(node.gpus):
        raise RefusedError(Code.INVALID_ARGUMENT)
    return present(node.gpus[index])


def instance_behind(node: Node, handle: int, kind: int) -> tuple[Gpu, Instance]:
    """Return the instance behind a handle of this kind, and the GPU that it stands on."""
    for gpu, instance in _instances(node):
        if handle == kind | instance.serial:
            return present(gpu), instance
    raise RefusedError(Code.INVALID_ARGUMENT)


def device_behind(node: Node, handle: int) -> tuple[Gpu, Instance | None]:
    """Resolve a device handle: NVML takes GPUs and MIG devices in the same calls."""
    if handle & ~NUMBER == MIG_DEVICE:
        return instance_behind(node, handle, MIG_DEVICE)
    return gpu_behind(node, handle), None


def mig_device_behind(node: Node, handle: int) -> tuple[Gpu, Instance]:
    """Resolve a handle in a call that NVML supports for MIG devices only."""
    gpu, instance = device_behind(node, handle)
    if instance is None:
        raise RefusedError(Code.NOT_SUPPORTED)
    return gpu, instance


def present(gpu: Gpu) -> Gpu:
    """Refuse a GPU that is lost: every call about it fails."""
    if gpu.lost:
        raise RefusedError(Code.GPU_IS_LOST)
    return gpu
