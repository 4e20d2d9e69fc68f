"""Handles of the simulated driver: numbers that mean nothing outside, and what stands behind them.

`answers` and `mig_answers` resolve the handles of each call here. A handle is a kind and a number:
a GPU's index, an instance's serial, an event set's number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from shared.nvml.errors import Code
from shared.simulation.gpu.state import EventSet, Gpu, Instance, MigDevice, Node

T = TypeVar("T")

GPU, MIG_DEVICE, GPU_INSTANCE, COMPUTE_INSTANCE, EVENT_SET = (kind << 32 for kind in range(1, 6))
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
    if kind == GPU_INSTANCE:
        return next((gpu.index for gpu, each in _instances(node) if each.serial == number), None)
    if kind in (MIG_DEVICE, COMPUTE_INSTANCE):
        devices = _mig_devices(node)
        return next((gpu.index for gpu, each in devices if each[1].serial == number), None)
    return None


def event_set_behind(node: Node, handle: int) -> EventSet:
    """Return the event set behind a handle."""
    event_set = node.event_sets.get(handle & NUMBER)
    if event_set is None or handle & ~NUMBER != EVENT_SET:
        raise RefusedError(Code.INVALID_ARGUMENT)
    return event_set


def gpu_behind(node: Node, handle: int) -> Gpu:
    """Return the GPU behind a handle; a MIG device's handle is none."""
    index = handle & NUMBER
    if handle & ~NUMBER != GPU or index >= len(node.gpus):
        raise RefusedError(Code.INVALID_ARGUMENT)
    return present(node.gpus[index])


def gpu_instance_behind(node: Node, handle: int) -> tuple[Gpu, Instance]:
    """Return the GPU instance behind a handle, and the GPU that it stands on."""
    for gpu, instance in _instances(node):
        if handle == GPU_INSTANCE | instance.serial:
            return present(gpu), instance
    raise RefusedError(Code.INVALID_ARGUMENT)


def compute_instance_behind(
    node: Node, handle: int, kind: int = COMPUTE_INSTANCE
) -> tuple[Gpu, MigDevice]:
    """Return the compute instance behind a handle, its GPU instance and its GPU."""
    for gpu, device in _mig_devices(node):
        if handle == kind | device[1].serial:
            return present(gpu), device
    raise RefusedError(Code.INVALID_ARGUMENT)


def device_behind(node: Node, handle: int) -> tuple[Gpu, MigDevice | None]:
    """Resolve a device handle: NVML takes GPUs and MIG devices in the same calls."""
    if handle & ~NUMBER == MIG_DEVICE:
        return compute_instance_behind(node, handle, MIG_DEVICE)
    return gpu_behind(node, handle), None


def mig_device_behind(node: Node, handle: int) -> tuple[Gpu, MigDevice]:
    """Resolve a handle in a call that NVML supports for MIG devices only."""
    gpu, device = device_behind(node, handle)
    if device is None:
        raise RefusedError(Code.NOT_SUPPORTED)
    return gpu, device


def first(candidates: Iterable[T], otherwise: Code) -> T:
    """Take the first candidate, or refuse with the code."""
    for candidate in candidates:
        return candidate
    raise RefusedError(otherwise)


def present(gpu: Gpu) -> Gpu:
    """Refuse a GPU that is lost: every call about it fails."""
    if gpu.lost:
        raise RefusedError(Code.GPU_IS_LOST)
    return gpu


def _instances(node: Node) -> Iterator[tuple[Gpu, Instance]]:
    return ((gpu, instance) for gpu in node.gpus for instance in gpu.instances)


def _mig_devices(node: Node) -> Iterator[tuple[Gpu, MigDevice]]:
    return ((gpu, device) for gpu in node.gpus for device in gpu.mig_devices)
