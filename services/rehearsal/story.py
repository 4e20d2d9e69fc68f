"""A story as frozen values: what the language reads from YAML and the engine plays.

A condition is generic on purpose: what it is about, and a tuple of (key, expected value). Which
keys exist is the language's table (`vocabulary`), how each is observed the engine's (`observe`).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from shared.domain.errors import Place
from shared.simulation.kube.kubelet.switches import Switches

DEFAULT_WITHIN_S = 10.0


class About(enum.StrEnum):
    """What a condition looks at."""

    NODE = "node"
    POD = "pod"
    WHO = "who"
    WHY = "why"
    TRACE = "trace"
    BUS = "bus"
    API = "api"


NAMED = (About.NODE, About.POD)  # their own key holds the name: `node: gpu-a`


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What must (or must never) be seen; all of `wants` hold together.

    `name` is the node or `namespace/pod`; empty for conditions that are about the whole cluster.
    `given` says what of it is looked at (`who`: node and GPU; `why`: the pod; `trace`: from which
    step).
    """

    about: About
    name: str
    wants: tuple[tuple[str, Any], ...]
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def keys(self) -> frozenset[str]:
        """What is asked about."""
        return frozenset(key for key, _ in self.wants)

    def words(self) -> str:
        """One line for people."""
        parts = (*self.given.items(), *self.wants)
        wants = ", ".join(f"{key} {plain(value)}" for key, value in parts)
        return " ".join(part for part in (self.about.value, self.name, wants) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMap:
    """Replace all keys of a ConfigMap; `data` None deletes it."""

    name: str
    data: Mapping[str, str] | None

    def words(self) -> str:
        """One line for people."""
        return f"configMap {self.name}" + ("" if self.data is not None else " deleted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """Set labels of a node; None removes one."""

    node: str
    labels: Mapping[str, str | None]

    def words(self) -> str:
        """One line for people."""
        return f"label node {self.node} {plain(self.labels)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container of a pod and the extended resources that it asks for."""

    name: str
    requests: Mapping[str, int]


class Owner(enum.StrEnum):
    """What a pod belongs to; a ReplicaSet's pod gets a successor when it is gone."""

    REPLICA_SET = "ReplicaSet"
    DAEMON_SET = "DaemonSet"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Uses:
    """What the process of a container takes of each GPU or MIG device that it gets."""

    memory_mib: int
    sm_percent: int = 0  # how much of the time it would compute with nobody beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """Create a pod; with `node` it is bound there without the scheduler.

    `init` are the containers that run to their end before the others start; `grace_seconds` is
    how long they need to end when the pod is deleted or evicted, None for next to no time, as
    most programs do on SIGTERM. `uses` is what its processes take of the GPUs and MIG devices that
    it gets; None for a pod that has no process there.
    """

    name: str
    containers: tuple[Container, ...]
    init: tuple[Container, ...] = ()
    namespace: str = "default"
    node: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    owner: Owner = Owner.NONE
    grace_seconds: int | None = None
    uses: Uses | None = None

    def words(self) -> str:
        """One line for people."""
        asks = ", ".join(plain(each.requests) for each in self.containers)
        return f"pod {self.namespace}/{self.name} asks for {asks}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete a pod; `force` does not wait for the kubelet."""

    pod: str  # namespace/name
    force: bool = False

    def words(self) -> str:
        """One line for people."""
        return f"delete pod {self.pod}" + (" by force" if self.force else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A PodDisruptionBudget: of the pods with these labels so many have to be there."""

    name: str
    selector: Mapping[str, str]
    min_available: int | str  # a text is a percentage
    namespace: str = "default"

    def words(self) -> str:
        """One line for people."""
        needs = f"needs {self.min_available} of the pods {plain(self.selector)}"
        return f"pdb {self.namespace}/{self.name} {needs}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cordon:
    """Make a node unschedulable, or schedulable again."""

    node: str
    unschedulable: bool

    def words(self) -> str:
        """One line for people."""
        return f"{'cordon' if self.unschedulable else 'uncordon'} node {self.node}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something happens to a node's hardware, or stops happening (`heal`).

    `what` is the fault's map as the simulated GPUs take it.
    """

    node: str
    what: Mapping[str, Any]
    heal: bool

    def words(self) -> str:
        """One line for people."""
        what = ", ".join(f"{key} {plain(value)}" for key, value in self.what.items())
        return f"{'heal' if self.heal else 'fault'} on node {self.node}: {what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reboot:
    """Boot a node anew: everything on it starts again, and its GPUs forget their instances."""

    node: str

    def words(self) -> str:
        """One line for people."""
        return f"reboot node {self.node}"


class Verb(enum.StrEnum):
    """What can be done to a service's process, or to a stand-in."""

    START = "start"
    STOP = "stop"
    RESTART = "restart"
    KILL = "kill"


class Service(enum.StrEnum):
    """What can be started and stopped; those up to the kubelet belong to a node."""

    ADVERTISER = "advertiser"
    ALLOCATOR = "allocator"
    AGENT = "agent"
    MPS = "mps"
    KUBELET = "kubelet"
    CONTROLLER = "controller"
    BUS = "bus"
    APISERVER = "apiserver"


NODE_SERVICES = (
    *(Service.ADVERTISER, Service.ALLOCATOR, Service.AGENT, Service.MPS),
    Service.KUBELET,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manage:
    """Start, stop, restart or kill a service."""

    verb: Verb
    service: Service
    node: str | None = None

    def words(self) -> str:
        """One line for people."""
        where = f" of node {self.node}" if self.node else ""
        return f"{self.verb.value} {self.service.value}{where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Let time pass."""

    seconds: float

    def words(self) -> str:
        """One line for people."""
        return f"wait {self.seconds:g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Remember which MIG instances there are: from here on `kept` compares with them."""

    name: str

    def words(self) -> str:
        """One line for people."""
        return f"mark {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """A sentence for the reader of the story; nothing is done or seen."""

    text: str

    def words(self) -> str:
        """One line for people."""
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """All conditions must be seen at once, within a time; with `for_s` they then stay so long."""

    conditions: tuple[Condition, ...]
    within_s: float = DEFAULT_WITHIN_S
    for_s: float = 0.0

    def words(self) -> str:
        """One line for people."""
        return "expect " + " and ".join(each.words() for each in self.conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Never:
    """From here to the end of the story, these conditions must not be seen all at once."""

    conditions: tuple[Condition, ...]

    def words(self) -> str:
        """One line for people."""
        return "never " + " and ".join(each.words() for each in self.conditions)


Act: TypeAlias = ConfigMap | Label | Pod | Delete | Budget | Cordon | Fault | Reboot | Manage
Action: TypeAlias = Act | Wait | Mark | Say | Expect | Never


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: where it stands, its kind as written (`configMap`, `expect`), what it does."""

    line: int
    kind: str
    action: Action
    name: str = ""  # `as`
    column: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of the story; a GPU is a name of the simulated catalogue, or a map with `model`."""

    name: str
    gpus: tuple[str | Mapping[str, Any], ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    kubelet: Switches = field(default_factory=Switches)
    stale_scheduler: bool = False
    place: Place = field(default=Place(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A whole rehearsal file."""

    file: str
    nodes: tuple[Node, ...]
    config_maps: Mapping[str, Mapping[str, str]]
    values: Mapping[str, Any]
    steps: tuple[Step, ...]

    @property
    def mps(self) -> bool:
        """Whether the nodes have an MPS service."""
        return serves_mps(self.values)


def serves_mps(values: Mapping[str, Any]) -> bool:
    """Whether nodes have an MPS service with these values of the chart."""
    return bool(values.get("mps", {}).get("enabled", False))


def plain(value: Any) -> str:
    """Write an expected or observed value the way the story writes it, on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {plain(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(plain(each) for each in value) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
