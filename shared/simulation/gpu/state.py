"""What one simulated node holds: GPUs, MIG instances, processes, faults. Values that change."""

from __future__ import annotations

import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from shared.nvml.errors import Code
from shared.simulation.gpu.catalogue import HOPPER, ComputeProfile, Layout, Profile


@dataclass(slots=True, kw_only=True)
class ComputeInstance:
    """A compute instance, and with its GPU instance the MIG device that it makes."""

    serial: int  # unique on the node; handles are made of it
    number: int  # NVML's id
    profile: ComputeProfile
    start: int  # in compute slices of its GPU instance
    index: int  # the MIG device's index on its GPU
    uuid: str


@dataclass(slots=True, kw_only=True)
class Instance:
    """A GPU instance with what it is divided into; usually one compute instance as wide."""

    serial: int
    number: int  # NVML's id, from the driver's heap: opaque
    profile: Profile
    start: int
    compute: list[ComputeInstance] = field(default_factory=list)


MigDevice = tuple[Instance, ComputeInstance]


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
    mig_pending: bool = False
    compute_mode: int = 0  # NVML's number; 0 takes everybody
    instances: list[Instance] = field(default_factory=list)
    lost: bool = False

    @property
    def pci_bus_id(self) -> str:
        """Bus ids lie four apart, as on real boards; bus 0 is the host's own."""
        return f"00000000:{0x10 + 4 * self.index:02X}:00.0"

    @property
    def keeps_mode(self) -> bool:
        """Whether the board itself keeps the MIG mode: a reset changes it, a reboot does not.

        Since Hopper the driver keeps it: it changes at once, and is gone with the driver.
        """
        return self.compute_capability[0] < HOPPER

    @property
    def mig_devices(self) -> list[MigDevice]:
        """The MIG devices, by index."""
        found = [(instance, each) for instance in self.instances for each in instance.compute]
        return sorted(found, key=lambda device: device[1].index)


@dataclass(frozen=True, slots=True)
class Client:
    """A process outside Kubernetes that holds a GPU open, such as a monitoring daemon."""

    gpu: int
    name: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process that computes on a GPU, or on the MIG device with this UUID, since a moment.

    `sm_percent` is how much of the time it would compute with nobody beside it. `cgroup` is the
    path of its control group, which says whose it is.
    """

    gpu: int
    uuid: str
    pid: int
    name: str
    memory_mib: int
    sm_percent: int = 0
    cgroup: str = ""
    mps: bool = False  # wants to be a client of an MPS daemon
    since_us: int = 0


@dataclass(slots=True)
class MpsDaemon:
    """An MPS control daemon, and whether a first client has made it start a server on its GPU."""

    pid: int
    gpu: int
    server: bool = False


@dataclass(frozen=True, slots=True)
class Xid:
    """An XID event; `instance` is the MIG device that it is about, None for the whole GPU."""

    gpu: int
    xid: int
    instance: MigDevice | None = None


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


@dataclass(frozen=True, slots=True)
class StuckMode:
    """New MIG modes stay pending, on one GPU or (None) on all: until a reset, a reboot, or healed.

    `until` is "reset", "reboot" or "healed".
    """

    gpu: int | None
    until: str


@dataclass(frozen=True, slots=True)
class MpsDown:
    """No MPS daemon lives: on one GPU, or on all (None)."""

    gpu: int | None


@dataclass(slots=True, kw_only=True)
class Node:
    """All of a simulated node. `openings` counts nvmlInit a process; event sets go by number.

    A process is known by its token, `<program>:<pid>:<anything>`.
    """

    name: str
    gpus: tuple[Gpu, ...]
    now_us: Callable[[], int]
    openings: Counter[str] = field(default_factory=Counter)
    event_sets: dict[int, EventSet] = field(default_factory=dict)
    event_sets_made: int = 0
    faults: list[CallFault] = field(default_factory=list)
    stuck_modes: list[StuckMode] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)
    mps: list[MpsDaemon] = field(default_factory=list)
    mps_down: list[MpsDown] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    boots: int = 1
    calls: Counter[str] = field(default_factory=Counter)  # by symbol
    writes: Counter[tuple[int, str]] = field(default_factory=Counter)  # by GPU and symbol
    serial: int = field(default=0, init=False)  # the last that was given

    def __post_init__(self) -> None:
        instances = [each for gpu in self.gpus for each in gpu.instances]
        made = [each.serial for each in instances]
        made += [each.serial for instance in instances for each in instance.compute]
        self.serial = max(made, default=0)

    def next_serial(self) -> int:
        """Number what is made next: never again, so no handle and no UUID ever comes back."""
        self.serial += 1
        return self.serial

    def users(self, besides: str = "") -> Iterator[str]:
        """Yield the tokens of the processes that have NVML open."""
        return (process for process, count in self.openings.items() if count and process != besides)

    def computing_on(self, gpu: Gpu, uuids: set[str] | None = None) -> list[Process]:
        """List the processes of a GPU, or of these MIG devices of it."""
        mine = [process for process in self.processes if process.gpu == gpu.index]
        return mine if uuids is None else [each for each in mine if each.uuid in uuids]

    def memory_used(self, gpu: Gpu, instance: Instance | None) -> int:
        """How much memory the processes of a GPU, or of one GPU instance, have taken, in MiB."""
        uuids = None if instance is None else {each.uuid for each in instance.compute}
        return sum(process.memory_mib for process in self.computing_on(gpu, uuids))


def made_uuid(name: str) -> uuid.UUID:
    """Make a UUID that is the same for the same name."""
    return uuid.uuid5(uuid.NAMESPACE_DNS, name)
