"""Messages of a node's state, as frozen values; `codec` writes and reads them."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from shared.contract.generation import NONE, Generation
from shared.contract.mps import MpsDaemon
from shared.domain.errors import Problem
from shared.domain.gpu import Gpu
from shared.domain.health import NO_VERDICTS, HealthRecord
from shared.domain.sharing import Share, SharingConfig, SourceKind, Strategy
from shared.domain.slots import Holder, SlotState
from shared.geometry.board import Board
from shared.geometry.config import Row

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Who wrote a message, about which node, for which store and generation.

    `writer` is new for each process. `store` is the bucket's creation time in ns (0: the writer
    has not seen a store yet): of two values the one of the greater store is the newer.
    """

    node: str
    writer: str
    store: int = 0
    generation: Generation = NONE
    schema: int = SCHEMA


# ------------------------------------------------------------------------------------- intent


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the wanted sharing comes from."""

    kind: SourceKind
    config_map: str = ""
    key: str = ""
    resource_version: str = ""


class ConfigState(enum.StrEnum):
    """What became of the newest text for a node."""

    APPLIED = "applied"
    REFUSED = "refused"  # the last good text goes on serving
    UNSHARED = "unshared"  # nothing selected


class Drift(enum.StrEnum):
    """What becomes of instances that were changed by hand after a change had succeeded."""

    REPORT = "report"  # they stay, the state says so
    REPAIR = "repair"  # the wanted layout is made again


@dataclass(frozen=True, slots=True, kw_only=True)
class MigPolicy:
    """What the agent may do by itself. A reboot happens once for each wanted state.

    `drain_ns` is how long the controller waits for pods in the way; the agent gives up later only.
    """

    reboot: bool = False
    drift: Drift = Drift.REPAIR
    drain_ns: int = 300_000_000_000


@dataclass(frozen=True, slots=True)
class WaitedFor:
    """A pod that a change waits for, why, and since when (ns)."""

    pod: str  # namespace/name
    why: str
    since_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Where the controller is with making room on a node, for people to read.

    `until_ns` is when it gives the attempt up; with a `reason` it has, and tries again then.
    """

    sentence: str = ""
    pods: tuple[WaitedFor, ...] = ()
    since_ns: int = 0
    until_ns: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What the controller wants of one node.

    `refused` names the text that `problems` are about: `source` may be another one, or a former
    form of it. `mig_rows` are the rows of the text under the name `mig_config`; none for a built-in
    name, which only the boards can explain. `clear_health` is the operator's annotation: a text
    that is new ends the node's verdicts of XIDs. `prepared_for` and `prepared_order` are the
    generation and the order of the `Progress` whose demands are met; None while they are not, or
    no longer. `ended` are those of its blockers, as namespace/name, that have ended and hold
    nothing any more: before Kubernetes 1.34 the kubelet, and so the ledger, goes on naming them.
    """

    stamp: Stamp
    sharing: SharingConfig
    source: Source
    state: ConfigState
    problems: tuple[Problem, ...] = ()
    refused: str = ""  # ConfigMap/key
    mig_config: str = ""  # wanted name of `nvidia.com/mig.config`, empty for none
    mig_rows: tuple[Row, ...] = ()
    mig_problems: tuple[Problem, ...] = ()  # why another name or text is not what is wanted
    mig_policy: MigPolicy = MigPolicy()
    clear_health: str = ""
    prepared_for: Generation | None = None
    prepared_order: int = 0
    ended: tuple[str, ...] = ()
    drain: Drain | None = None  # None: nothing to make room for


# ---------------------------------------------------------------------------------- inventory


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What the advertiser sees, and what each device is to offer under the stamped generation.

    `problems` say why the wanted sharing does not fit this hardware; `shares` are then the former.
    `mps` are the daemons of GPUs that are or were to be shared by MPS. `recut` are GPUs that are to
    be cut anew, of whose driver everybody has to let go. `health` is what the advertiser's next
    process goes on judging by.
    """

    stamp: Stamp
    driver_version: str
    cuda_version: tuple[int, int]
    gpus: tuple[Gpu, ...]
    shares: tuple[Share, ...]
    problems: tuple[Problem, ...] = ()
    mps: tuple[MpsDaemon, ...] = ()
    recut: tuple[str, ...] = ()
    health: HealthRecord = NO_VERDICTS
    paused_for: Generation | None = None  # NVML has been let go for this generation's hold
    paused_order: int = 0
    traceparent: str = ""  # the change that this inventory answers; the file has no headers


# ------------------------------------------------------------------------------------- ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """A slot that is not simply free: who holds it, how and since when.

    `holder` None: unresolved. `strategy` is how its holder shares the device, NONE: has it whole.
    """

    slot: str
    resource: str
    gpu_uuid: str
    state: SlotState
    strategy: Strategy = Strategy.NONE
    holder: Holder | None = None
    since_ns: int = 0
    trace: str = ""  # trace id of the Allocate call, empty where nobody asked us


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotCounts:
    """total = free + granted + held + retiring + unhealthy; `lost` stands outside the total."""

    free: int = 0
    granted: int = 0
    held: int = 0
    retiring: int = 0
    unhealthy: int = 0
    lost: int = 0

    @property
    def total(self) -> int:
        """All slots that a device of the node still has."""
        return self.free + self.granted + self.held + self.retiring + self.unhealthy


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCounts:
    """Slot counts of one resource on one GPU."""

    gpu_uuid: str
    resource: str
    counts: SlotCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Every slot of a node that somebody holds, and counts for all of them.

    `held_for` and `held_order` are those of the newest hold that is on disk and, as far as its
    slots are off the list, with the kubelet: what the rows do not show is free for good.
    """

    stamp: Stamp
    rows: tuple[LedgerRow, ...]
    counts: tuple[DeviceCounts, ...]
    held_for: Generation | None = None
    held_order: int = 0

    @property
    def forms(self) -> dict[tuple[str, str], Strategy]:
        """How shared devices are shared with the holders, by resource and slot."""
        return {
            (row.resource, row.slot): row.strategy
            for row in self.rows
            if row.strategy is not Strategy.NONE
        }


# --------------------------------------------------------------------------- hold and progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Which slots the agent wants withheld while it changes the hardware.

    Of the GPUs in `recut` everything is withheld but the devices in `kept`, whatever appears on
    them meanwhile: `slots` are those that were known when the hold was written. One without
    `recut` ends the former. `ended` are pods, as namespace/name, that hold none of what is
    withheld, whatever the kubelet says: they have ended.
    """

    stamp: Stamp
    slots: tuple[str, ...] = ()
    recut: tuple[str, ...] = ()  # UUIDs of GPUs
    kept: tuple[str, ...] = ()  # UUIDs of MIG devices
    ended: tuple[str, ...] = ()
    release_nvml: bool = False  # every NVML user of slicewire must let go of the driver
    reason: str = ""
    order: int = 0  # of the attempt; ledger and inventory answer with it


class Phase(enum.StrEnum):
    """Where a node's change stands."""

    IDLE = "idle"
    PREPARE = "prepare"  # asks the controller to cordon, pause and wait
    HOLDING = "holding"
    APPLYING = "applying"
    REBOOTING = "rebooting"  # stored before the node goes down
    SUCCESS = "success"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuttable:
    """What GPUs can be cut into, by their drivers' word; equal ones are told together."""

    gpus: tuple[str, ...]  # UUIDs
    board: Board


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What the agent does for the stamped generation, and what it needs from the controller.

    `order` numbers one attempt at a change and grows with each: an answer to an earlier attempt of
    the same generation is none to this one. `reason` is one word for states and Events
    ("Infeasible", "InUse"), `sentence` the whole of it. `since_ns` is when the attempt began,
    of a phase HOLDING when the hold did; `until_ns` when the hold is given up, or a failure tried
    again (0: not by itself). `step` is `number` of `steps` of this attempt. `boards` are those
    of the GPUs that can do MIG: who knows them can say what another layout would give.
    """

    stamp: Stamp
    phase: Phase
    sentence: str
    reason: str = ""
    order: int = 0
    slots: tuple[str, ...] = ()
    blockers: tuple[Holder, ...] = ()
    components: tuple[str, ...] = ()  # labels of the GPU Operator's components to pause
    step: str = ""
    number: int = 0
    steps: int = 0
    since_ns: int = 0
    until_ns: int = 0
    boards: tuple[Cuttable, ...] = ()
