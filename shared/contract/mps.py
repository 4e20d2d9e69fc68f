"""What the MPS service and its neighbours on the node tell each other, in files of the run folder.

    inventory.json   advertiser → MPS service: which GPUs are to be shared by MPS, in how many
    mps-held.json    allocator → MPS service: in which forms GPUs are held
    mps.json         MPS service → advertiser: how its daemons are; goes on in `inventory`

Files, because a GPU must be served with the bus away, and the MPS service needs no right on it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from shared.contract.generation import Generation
from shared.domain.sharing import Strategy

HELD_FILE, HELD_KIND = "mps-held.json", "mps-held"
STATE_FILE, STATE_KIND = "mps.json", "mps"
LOCK_FILE = "mps.lock"  # held by the service while it lives

# Where a GPU's daemon has its folders: below this one in the service and in every client, for the
# daemon's sockets must have the same path in both.
ROOT = "/mps"
PIPE, LOG, SHM = "pipe", "log", "shm"


class DaemonState(enum.StrEnum):
    """Whether the MPS daemon of a GPU takes clients."""

    STARTING = "starting"  # for the first time since MPS is wanted
    READY = "ready"
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class MpsDaemon:
    """The MPS control daemon of one GPU. `reason` says why it is not ready.

    `replicas` are what its limits were made for. `exclusive`: the GPU takes clients of the daemon
    and no other program. `since_ns` is when the state began.
    """

    gpu_uuid: str
    state: DaemonState
    reason: str = ""
    pid: int = 0
    replicas: int = 0
    exclusive: bool = False
    since_ns: int = 0

    @property
    def ready(self) -> bool:
        """Whether it takes clients."""
        return self.state is DaemonState.READY


def closed(daemon: MpsDaemon | None, strategy: Strategy) -> bool:
    """Whether a GPU with this daemon takes nobody new who shares it so."""
    if strategy is Strategy.MPS:
        return daemon is None or not daemon.ready
    return daemon is not None and daemon.exclusive


@dataclass(frozen=True, slots=True, kw_only=True)
class MpsState:
    """All daemons of a node, by GPU UUID."""

    daemons: tuple[MpsDaemon, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class HeldForm:
    """Somebody holds a slot on this GPU and shares it so; NONE: has it, or a part of it, whole."""

    gpu_uuid: str
    strategy: Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldForms:
    """In which forms GPUs are held, when the allocator had applied this generation's inventory."""

    generation: Generation
    forms: tuple[HeldForm, ...] = ()
