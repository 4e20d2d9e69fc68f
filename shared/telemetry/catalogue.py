"""The one table of what is measured: OTel names, labels, buckets, and how many series at most.

`shared.telemetry.meters` makes instruments of it, services record and show by its constants,
`shared.telemetry.docs` writes docs/metrics.md, dashboards and alerts take their names from here.
Pure.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from shared.contract.table import NODE_ROLES, Role

EVERYWHERE = (*NODE_ROLES, Role.CONTROLLER)
UNITS = {"s": "seconds", "By": "bytes", "1": "ratio"}  # as Prometheus writes them in names


class Kind(enum.StrEnum):
    """How an instrument behaves; the word is Prometheus' own."""

    GAUGE = "gauge"  # what is so at the moment of a scrape; read from what the service knows
    COUNTER = "counter"  # never goes down while the process lives
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Instrument:
    """One thing that is measured.

    Besides `labels` series of node services carry `node`, and those of every service `service`.
    `unit` is UCUM's, empty for plain numbers. `bound` says how many series one process has at most.
    """

    name: str
    kind: Kind
    services: tuple[Role, ...]
    says: str
    bound: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    buckets: tuple[float, ...] = ()

    @property
    def exposed(self) -> str:
        """The name in Prometheus."""
        unit = f"_{UNITS[self.unit]}" if self.unit else ""
        total = "_total" if self.kind is Kind.COUNTER else ""
        return self.name.replace(".", "_") + unit + total

    def place(self, service: Role, node: str) -> dict[str, str]:
        """The labels that say who tells it; `node` is empty for the controller."""
        where = {"node": node} if node else {}
        return where | {"service": service.value} if self.services == EVERYWHERE else where

    def at(self, value: float, **labels: str) -> Sample:
        """One series of it, with exactly its labels; words of enums become plain text.

        Raises:
            ValueError: a label is missing or unknown; a mistake in slicewire.
        """
        if labels.keys() != set(self.labels):
            raise ValueError(
                f"{self.name} has the labels {', '.join(self.labels) or '(none)'},"
                f" not {', '.join(sorted(labels)) or '(none)'}"
            )
        return Sample(self, value, {name: str(text) for name, text in labels.items()})


@dataclass(frozen=True, slots=True)
class Sample:
    """The value of one series now."""

    instrument: Instrument
    value: float
    labels: dict[str, str]


_ADVERTISER, _ALLOCATOR, _AGENT = (Role.ADVERTISER,), (Role.ALLOCATOR,), (Role.AGENT,)
_CONTROLLER = (Role.CONTROLLER,)
_GPU = ("uuid", "index", "model")
_USED = (*_GPU, "shared", "holders")
_CONTAINER = ("namespace", "pod", "container", "uuid")
_ONE = "1"
_PER_GPU = "one a GPU"
_PER_CONTAINER = "one a container and device with a process on it"

# ----------------------------------------------------------------------------- every service

BUILD_INFO = Instrument(
    name="slicewire.build.info",
    kind=Kind.GAUGE,
    services=EVERYWHERE,
    labels=("version",),
    says="1; the label says which version runs",
    bound=_ONE,
)
BUS_CONNECTED = Instrument(
    name="slicewire.bus.connected",
    kind=Kind.GAUGE,
    services=EVERYWHERE,
    says="1 while the bus has let the service in and the connection stands, else 0",
    bound=_ONE,
)
BUS_RECONNECTS = Instrument(
    name="slicewire.bus.reconnects",
    kind=Kind.COUNTER,
    services=EVERYWHERE,
    says="connections to the bus after the first",
    bound=_ONE,
)
QUEUE_DEPTH = Instrument(
    name="slicewire.queue.depth",
    kind=Kind.GAUGE,
    services=EVERYWHERE,
    labels=("queue",),
    says="entries that wait to be sent; queues are `facts`, `spans` (to the bus) and `otlp`",
    bound="3",
)
DROPPED = Instrument(
    name="slicewire.dropped",
    kind=Kind.COUNTER,
    services=EVERYWHERE,
    labels=("what",),
    says="entries that were lost: `facts` and `spans` that the bus did not take or that were too"
    " many while it was away, `otlp` likewise for the receiver of spans and metrics",
    bound="3",
)

# -------------------------------------------------------------------------------- advertiser

GPU_INFO = Instrument(
    name="slicewire.gpu.info",
    kind=Kind.GAUGE,
    services=_ADVERTISER,
    labels=(*_GPU, "pci"),
    says="1 for each GPU that NVML lists or that is missed",
    bound=_PER_GPU,
)
GPU_HEALTHY = Instrument(
    name="slicewire.gpu.healthy",
    kind=Kind.GAUGE,
    services=_ADVERTISER,
    labels=_GPU,
    says="1 while slots of the GPU may be handed out, 0 while it is sick, lost or silent",
    bound=_PER_GPU,
)
GPU_HEALTH_CHANGES = Instrument(
    name="slicewire.gpu.health.changes",
    kind=Kind.COUNTER,
    services=_ADVERTISER,
    labels=("uuid", "state"),
    says="verdicts on a GPU or MIG device that differ from the one before, by the new state",
    bound="four a GPU and a MIG device that fell sick",
)
MPS_DAEMON_READY = Instrument(
    name="slicewire.mps.daemon.ready",
    kind=Kind.GAUGE,
    services=_ADVERTISER,
    labels=_GPU,
    says="1 while the MPS daemon of a GPU takes clients, 0 while it does not; none without MPS",
    bound=_PER_GPU,
)
GPU_XIDS = Instrument(
    name="slicewire.gpu.xids",
    kind=Kind.COUNTER,
    services=_ADVERTISER,
    labels=("uuid", "xid"),
    says="XID events of a GPU, those of the application among them",
    bound="one a GPU and number of an XID it had (about 170 are defined)",
)
GPU_MEMORY_SIZE = Instrument(
    name="slicewire.gpu.memory.size",
    kind=Kind.GAUGE,
    services=_ADVERTISER,
    labels=_GPU,
    unit="By",
    says="memory of the GPU",
    bound=_PER_GPU,
)
GPU_MEMORY_USED = Instrument(
    name="slicewire.gpu.memory.used",
    kind=Kind.GAUGE,
    services=_ADVERTISER,
    labels=_USED,
    unit="By",
    says="memory in use on the GPU; `shared` says whether it offers more than one slot, `holders`"
    " how many pods have one, empty while nobody knows",
    bound=_PER_GPU,
)
GPU_UTILIZATION = Instrument(
    name="slicewire.gpu.utilization",
    kind=Kind.GAUGE,
    services=_ADVERTISER,
    labels=_USED,
    unit="1",
    says="share of the time in which a kernel ran on the GPU; absent in MIG mode, where NVML"
    " does not say",
    bound=_PER_GPU,
)
MIG_INSTANCE_INFO = Instrument(
    name="slicewire.mig.instance.info",
    kind=Kind.GAUGE,
    services=_ADVERTISER,
    labels=("uuid", "parent", "gpu_instance", "compute_instance", "profile"),
    says="1 for each MIG device: its UUID, its GPU's, and the ids that others know it by",
    bound="seven a GPU",
)
POD_GPU_MEMORY_USED = Instrument(
    name="slicewire.pod.gpu.memory.used",
    kind=Kind.GAUGE,
    services=_ADVERTISER,
    labels=_CONTAINER,
    unit="By",
    says="memory that the processes of a container have on a GPU or MIG device",
    bound=_PER_CONTAINER,
)
POD_GPU_SM_UTILIZATION = Instrument(
    name="slicewire.pod.gpu.sm.utilization",
    kind=Kind.GAUGE,
    services=_ADVERTISER,
    labels=_CONTAINER,
    unit="1",
    says="share of the GPU's multiprocessors that a container's processes kept busy; absent"
    " where NVML does not say (MIG)",
    bound=_PER_CONTAINER,
)
UNACCOUNTED_GPU_MEMORY_USED = Instrument(
    name="slicewire.unaccounted.gpu.memory.used",
    kind=Kind.GAUGE,
    services=_ADVERTISER,
    labels=("uuid",),
    unit="By",
    says="memory of processes that belong to no container with a slot",
    bound="one a GPU and MIG device",
)
UNACCOUNTED_GPU_PROCESSES = Instrument(
    name="slicewire.unaccounted.gpu.processes",
    kind=Kind.GAUGE,
    services=_ADVERTISER,
    labels=("uuid",),
    says="processes that belong to no container with a slot",
    bound="one a GPU and MIG device",
)

# --------------------------------------------------------------------------------- allocator

SLOTS = Instrument(
    name="slicewire.slots",
    kind=Kind.GAUGE,
    services=_ALLOCATOR,
    labels=("resource", "uuid", "state"),
    says="slots of a resource on a GPU (`uuid`), each counted once: free, granted (pod not yet"
    " known), held, retiring (beyond the wanted count), unhealthy; lost ones are no capacity",
    bound="six a GPU and resource",
)
HOLDER = Instrument(
    name="slicewire.holder",
    kind=Kind.GAUGE,
    services=_ALLOCATOR,
    labels=(*_CONTAINER, "parent", "slot", "resource"),
    says="1 for each slot that a container holds: `uuid` is the GPU or MIG device, `parent` the"
    " GPU; none for a free slot. A container with more than 64 slots of one device (memory"
    " counted in MiB) is one series, its `slot` empty",
    bound="one a held slot; 64 a container, device and resource",
)
ALLOCATE_DURATION = Instrument(
    name="slicewire.allocate.duration",
    kind=Kind.HISTOGRAM,
    services=_ALLOCATOR,
    labels=("resource", "outcome"),
    unit="s",
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0),
    says="the kubelet's Allocate calls, until they are on disk; outcome `granted` or `refused`",
    bound="two a resource, 14 lines each",
)
LISTS = Instrument(
    name="slicewire.lists",
    kind=Kind.COUNTER,
    services=_ALLOCATOR,
    labels=("resource",),
    says="lists of devices that differ from the one before and were shown to the kubelet",
    bound="one a resource",
)
REGISTRATIONS = Instrument(
    name="slicewire.registrations",
    kind=Kind.COUNTER,
    services=_ALLOCATOR,
    labels=("resource",),
    says="registrations with the kubelet",
    bound="one a resource",
)
CONFLICTS = Instrument(
    name="slicewire.conflicts",
    kind=Kind.COUNTER,
    services=_ALLOCATOR,
    says="slots for which one List of the kubelet names two pods that run",
    bound=_ONE,
)

# ------------------------------------------------------------------------------------- agent

MIG_CHANGE_DURATION = Instrument(
    name="slicewire.mig.change.duration",
    kind=Kind.HISTOGRAM,
    services=_AGENT,
    labels=("outcome",),
    unit="s",
    buckets=(0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0),
    says="changes of a node's MIG layout, from the first demand to their end; outcome `success`,"
    " `failed`, or `abandoned` where it was no longer wanted",
    bound="3, 14 lines each",
)
MIG_WRITES = Instrument(
    name="slicewire.mig.writes",
    kind=Kind.COUNTER,
    services=_AGENT,
    labels=("call", "outcome"),
    says="calls that change a GPU: `destroy`, `create`, `mode`, `reset`; outcome `done` or"
    " `refused`",
    bound="8",
)
CHANGE_PHASE = Instrument(
    name="slicewire.change.phase",
    kind=Kind.GAUGE,
    services=_AGENT,
    labels=("phase",),
    says="1 for the phase in which the node's change stands",
    bound=_ONE,
)

# -------------------------------------------------------------------------------- controller

RECONFIGURATION_DURATION = Instrument(
    name="slicewire.reconfiguration.duration",
    kind=Kind.HISTOGRAM,
    services=_CONTROLLER,
    labels=("kind", "outcome"),
    unit="s",
    buckets=(0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0),
    says="changes of a node from the label or ConfigMap event to its end: for kind `sharing` the"
    " ledger with the new slots, for `mig` the new devices in the node's allocatable; outcome"
    " `success` or `failed`. A change that a leader inherits is not timed",
    bound="4, 16 lines each",
)
EVICTIONS = Instrument(
    name="slicewire.evictions",
    kind=Kind.COUNTER,
    services=_CONTROLLER,
    labels=("outcome",),
    says="calls of the Eviction API: `evicted`, `blocked` (a disruption budget), `gone`, `failed`",
    bound="4",
)
REFUSALS = Instrument(
    name="slicewire.refusals",
    kind=Kind.COUNTER,
    services=_CONTROLLER,
    labels=("reason",),
    says="wanted states of a node that were refused, by the reason of the Event",
    bound="one a reason of docs/troubleshooting.md",
)
NODES = Instrument(
    name="slicewire.nodes",
    kind=Kind.GAUGE,
    services=_CONTROLLER,
    labels=("state",),
    says="nodes that the leader knows, each counted once: `failed`, `changing`, `silent` (its"
    " advertiser has told nothing yet, or nothing for three minutes), else `ready`",
    bound="4",
)
CONFIG_REFUSED = Instrument(
    name="slicewire.config.refused",
    kind=Kind.GAUGE,
    services=_CONTROLLER,
    labels=("node",),
    says="1 for each node whose newest sharing configuration is refused; the former one serves",
    bound="one a node",
)
WAITING_PODS = Instrument(
    name="slicewire.waiting.pods",
    kind=Kind.GAUGE,
    services=_CONTROLLER,
    labels=("reason",),
    says="Pending pods that ask for our resources, by the reason that `slicewire why` gives",
    bound="one a reason of `slicewire why` (11)",
)
KUBELET_STALE_DEVICES = Instrument(
    name="slicewire.kubelet.stale.devices",
    kind=Kind.GAUGE,
    services=_CONTROLLER,
    labels=("node", "resource"),
    says="devices that a kubelet believes to be held by pods that nobody knows, by its newest"
    " refusal of the last half hour: free in our ledger, and refused until it is restarted",
    bound="one a node and resource whose kubelet's table is stale",
)
WAITING_SLOTS = Instrument(
    name="slicewire.waiting.slots",
    kind=Kind.GAUGE,
    services=_CONTROLLER,
    labels=("resource",),
    says="slots that Pending pods ask for",
    bound="one a resource that we serve",
)
API_REQUESTS = Instrument(
    name="slicewire.api.requests",
    kind=Kind.COUNTER,
    services=_CONTROLLER,
    labels=("verb", "outcome"),
    says="requests to the API server; outcome `ok`, the status code, or `away`",
    bound="one a verb (6) and status code seen",
)
WATCH_RESTARTS = Instrument(
    name="slicewire.watch.restarts",
    kind=Kind.COUNTER,
    services=_CONTROLLER,
    labels=("watch",),
    says="watches that an error cut, or the server refused, and that began anew",
    bound="one a watch (3)",
)
LEADER = Instrument(
    name="slicewire.leader",
    kind=Kind.GAUGE,
    services=_CONTROLLER,
    says="1 for the controller that leads, 0 for one that waits",
    bound=_ONE,
)

INSTRUMENTS = tuple(each for each in vars().values() if isinstance(each, Instrument))
