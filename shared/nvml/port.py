"""What the node services need of NVML, as small roles that the threads call and a driver plays.

Calls block, and may block for ever where a GPU is sick: only `shared.nvml.threads` makes them.
Errors are those of `shared.nvml.errors`.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

from shared.domain.gpu import Gpu, MigMode
from shared.geometry.board import Board, Profile
from shared.nvml.errors import Code


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
    """All of NVML that a service needs which changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuInstance:
    """A GPU instance as it stands; `start` and `size` in memory slices.

    `devices` are the UUIDs of the MIG devices on it, one a compute instance. It is `whole` where
    there is one that is as wide as the instance: any other is handed out to nobody.
    """

    id: int
    profile: str
    start: int
    size: int
    devices: tuple[str, ...] = ()
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeSet:
    """What came of asking for a MIG mode: the mode then, and why it is pending where it is."""

    mode: MigMode
    status: Code

    @property
    def in_force(self) -> bool:
        """Whether the GPU is in the mode that was asked for."""
        return self.mode.current == self.mode.pending


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process that computes on a GPU, in which GPU instance, and the memory that it has taken.

    `memory_mib` is None where NVML does not say it, `gpu_instance` where there is none.
    """

    pid: int
    memory_mib: int | None
    gpu_instance: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUse:
    """What one process takes of a device.

    `memory_mib` and `sm_percent` are None where NVML does not say them.
    """

    pid: int
    memory_mib: int | None
    sm_percent: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What is taken of a GPU or of one of its MIG devices, and by which processes."""

    uuid: str
    gpu_uuid: str
    memory_mib: int  # its size
    used_mib: int
    sm_percent: int | None  # of the time in which anything computed; None where NVML is silent
    processes: tuple[ProcessUse, ...]


class Sampler(Protocol):
    """Looks at the use of hardware."""

    def sample(self, gpu: Gpu) -> tuple[Sample, ...]:
        """Look at the GPU and then at its MIG devices; processes stand where they compute."""


class Writer(Protocol):
    """Changes the MIG mode and the instances of a GPU, and reads what a change needs to know.

    A GPU is named by the value that a look at it gave: where another one stands at its index by
    now, nothing is done to that.
    """

    def board(self, gpu: Gpu) -> Board:
        """What the GPU can be cut into, also while it is not in MIG mode."""

    def instances(self, gpu: Gpu) -> tuple[GpuInstance, ...]:
        """All GPU instances by their place, also those that make no whole MIG device."""

    def processes(self, gpu: Gpu) -> tuple[GpuProcess, ...]:
        """Which processes compute on the GPU and its instances."""

    def set_mig_mode(self, gpu: Gpu, *, on: bool) -> ModeSet:
        """Ask for a MIG mode."""

    def create_instance(self, gpu: Gpu, profile: Profile, start: int) -> GpuInstance:
        """Make a GPU instance there, with a compute instance as wide as it is."""

    def destroy_instance(self, gpu: Gpu, instance: int) -> None:
        """Take a GPU instance and its compute instances away."""
