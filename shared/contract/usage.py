"""What is taken of the devices of a node, and by whom, as its advertiser tells it."""

from __future__ import annotations

from dataclasses import dataclass

from shared.contract.messages import Stamp
from shared.domain.slots import Holder


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUse:
    """What the processes of one container take of a device; None where NVML does not say it."""

    holder: Holder
    memory_mib: int | None
    sm_percent: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """What is taken of one GPU or MIG device, and by whom.

    `pods` are holders of its slots only. `unaccounted` names the others, as pods or as programs
    of the host, and not all where they are many; None in `sm_percent`: NVML does not say it.
    """

    uuid: str
    gpu_uuid: str
    memory_mib: int  # its size
    used_mib: int
    sm_percent: int | None = None
    pods: tuple[PodUse, ...] = ()
    unaccounted: tuple[str, ...] = ()
    unaccounted_processes: int = 0
    unaccounted_mib: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What is taken of each device that answers, written anew only when it differs enough.

    `blind` says why nobody is named on any of them; empty where that can be told.
    """

    stamp: Stamp
    devices: tuple[DeviceUse, ...]
    blind: str = ""
