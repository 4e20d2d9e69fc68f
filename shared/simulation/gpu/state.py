"""What one simulated node holds: GPUs, MIG instances, event sets, faults. Values that change."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from shared.nvml.errors import Code
from shared.simulation.gpu.catalogue import Layout, Profile


@dataclass(slots=True, kw_only=True)
class Instance:
    """A GPU instance with its full-width compute instance, and the MIG device that they make."""

    serial: int  # unique on the node; handles are made of it
    index: int  # the MIG device's index on its GPU
    uuid: str
    profile: Profile
    start: int
    gpu_instance: int
    compute_instance: int = 0


@dataclass(slots=True, kw_only=True)
class Gpu:
    """One simulated GPU. `layout` is None where the model cannot do MIG. Memory in MiB."""

    index: int
    uuid: str
    model: str
    product: str
    pci_device: int
    memory_mib: int
    compute_capability: tuple[int, int]
    layout: Layout | None
    profiles: tuple[Profile, ...]
    mig_mode: bool = False
    instances: list[Instance] = field(default_factory=list)
    lost: bool = False

    @property
    def pci_bus_id(self) -> str:
        """Bus ids lie four apart, as on real boards; bus 0 is the host's own."""
        return f"00000000:{0x10 + 4 * self.index:02X}:00.0"


@dataclass(frozen=True, slots=True)
class Xid:
    """An XID event; `instance` is the MIG instance that it is about, None for the whole GPU."""

    gpu: int
    xid: int
    instance: Instance | None = None


@dataclass(slots=True, kw_only=True)
class EventSet:
    """An event set of one process, with the GPUs it is registered for and what they reported."""

    process: str
    gpus: set[int] = field(default_factory=set)
    events: deque[Xid] = field(default_factory=deque)


@dataclass(slots=True, kw_only=True)
class CallFault:
    """Calls of one symbol go wrong: from the `nth` on, `times` of them (None: all).

    `gpu` limits it to calls about one GPU. A wrong call answers `code`, or it answers as it
    should, but only after `delay_s` (None: never) or when the fault is healed.
    """

    call: str
    gpu: int | None
    nth: int
    times: int | None
    code: Code | None
    delay_s: float | None
    seen: int = 0
    healed: bool = False

    def strikes(self, symbol: str, gpu: int | None) -> bool:
        """Count a call; say whether this one goes wrong."""
        if symbol != self.call or (self.gpu is not None and gpu != self.gpu):
            return False
        self.seen += 1
        past = self.seen - self.nth
        return past >= 0 and (self.times is None or past < self.times)


@dataclass(slots=True, kw_only=True)
class Node:
    """All of a simulated node. `openings` counts nvmlInit a process; event sets go by number."""

    name: str
    gpus: tuple[Gpu, ...]
    openings: Counter[str] = field(default_factory=Counter)
    event_sets: dict[int, EventSet] = field(default_factory=dict)
    event_sets_made: int = 0
    faults: list[CallFault] = field(default_factory=list)
