"""What the node services need of NVML, as small roles that the threads call and a driver plays.

Calls block, and may block for ever where a GPU is sick: only `shared.nvml.threads` makes them.
Errors are those of `shared.nvml.errors`.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

from shared.domain.gpu import Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEvent:
    """Something that NVML reported by itself.

    `gpu_uuid` is the physical GPU's, also where `gpu_instance` says that one MIG instance is
    meant; it is empty where NVML does not say which GPU: look at all of them. `xid` is 0 where
    there is none. `lost`: the GPU no longer answers.
    """

    gpu_uuid: str
    xid: int
    gpu_instance: int | None = None
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """What is installed: the driver's version as it spells it, the CUDA version it supports."""

    driver: str
    cuda: tuple[int, int]


class Reader(Protocol):
    """Opens NVML and reads hardware."""

    def open(self) -> Versions:
        """Start using NVML."""

    def close(self) -> None:
        """Let NVML go: afterwards this process holds nothing of the driver."""

    def count(self) -> int:
        """How many GPUs NVML lists."""

    def gpu(self, index: int) -> Gpu:
        """Read one GPU and its MIG devices."""


class Watcher(Protocol):
    """Waits for events. A watch is opaque, and is for the GPUs that were added to it."""

    def watch(self) -> Hashable:
        """Make an empty watch."""

    def add(self, watch: Hashable, index: int) -> None:
        """Have the watch hear of this GPU's XIDs."""

    def wait(self, watch: Hashable, timeout_s: float) -> GpuEvent | None:
        """Wait for the next event, None when there was none in time."""

    def drop(self, watch: Hashable) -> None:
        """Give a watch back."""


class Driver(Reader, Watcher, Protocol):
    """All of NVML that a node service uses."""
