"""GPUs and MIG devices as one look at the hardware shows them.

The NVML driver makes these values, the advertiser publishes them, everybody else reads them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class HealthState(enum.StrEnum):
    """Whether a device can be handed out; every state but `HEALTHY` withholds all its slots."""

    HEALTHY = "healthy"
    SICK = "sick"  # an XID that counts as fatal
    LOST = "lost"  # NVML says GPU_IS_LOST, or the device is no longer listed
    SILENT = "silent"  # an NVML call on it has not returned by its deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """A verdict on one device, with the sentence that explains it."""

    state: HealthState = HealthState.HEALTHY
    reason: str = ""
    xid: int | None = None
    since_ns: int = 0

    @property
    def usable(self) -> bool:
        """Whether slots on the device may be handed out."""
        return self.state is HealthState.HEALTHY


HEALTHY = Health()


@dataclass(frozen=True, slots=True, kw_only=True)
class MigMode:
    """MIG mode of a capable GPU: what is in force, and what a reset would bring."""

    current: bool
    pending: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """How many engines of each kind a MIG device has, beside its multiprocessors."""

    copy: int
    decoder: int
    encoder: int
    jpeg: int
    ofa: int  # optical flow


@dataclass(frozen=True, slots=True, kw_only=True)
class MigDevice:
    """One GPU instance with its full-width compute instance.

    `profile` is NVML's own name ("1g.10gb"); names and sizes depend on the driver, so they are
    read and never computed. Ids are opaque. Memory in MiB. `nodes` are paths of the device nodes
    that guard it, which a container needs beside its GPU's. `engines` is None for a device that
    is only planned.
    """

    index: int
    uuid: str
    profile: str
    gpu_instance: int
    compute_instance: int
    start: int
    size: int
    memory_mib: int
    multiprocessors: int
    gpu_slices: int
    compute_slices: int
    engines: Engines | None = None
    nodes: tuple[str, ...] = ()
    health: Health = HEALTHY


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One physical GPU. `mig_mode` is None where the board cannot do MIG. Memory in MiB."""

    index: int
    uuid: str
    model: str  # NVML's product name, "NVIDIA A100-SXM4-80GB"
    minor: int  # /dev/nvidia<minor>
    memory_mib: int
    pci_bus_id: str
    pci_device: int  # (device << 16) | vendor, as NVML gives it
    compute_capability: tuple[int, int]
    numa_node: int | None = None
    mig_mode: MigMode | None = None
    mig_devices: tuple[MigDevice, ...] = ()
    health: Health = HEALTHY

    @property
    def mig_enabled(self) -> bool:
        """Whether the GPU is cut (or ready to be cut) into MIG devices now."""
        return self.mig_mode is not None and self.mig_mode.current


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """All GPUs of a node in index order, as one look shows them, with the driver's versions."""

    driver_version: str
    cuda_version: tuple[int, int]
    gpus: tuple[Gpu, ...]
