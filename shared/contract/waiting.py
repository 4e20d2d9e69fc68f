"""Pods that do not run, as the controller sees them: one value for the whole fleet.

Commands have no way to the API server; what they need of pods to say why one waits stands here,
and the rest is what the nodes say of themselves. Bounded, so that a storm of pods costs no more
than the pods that are told of.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.contract.messages import Stamp

MOST_PODS = 500  # that are told of
MOST_FAILED = 100  # of these, that have failed: they lie about until somebody deletes them
MOST_OTHERS = 100  # of these, that ask for no device
FAILED = "Failed"  # the phase
MOST_TEXT = 512  # characters of a sentence of somebody else


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a pod needs of one resource: at a time, and at most in one container."""

    resource: str
    count: int
    largest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPod:
    """A pod that is pending, or that was refused or has failed. Times in ns since the epoch.

    `place` is the index of the nodes that it may go to. `scheduler` is what the scheduler says
    of it, `reason` and `message` what its status does; `failed_ns` is when it failed, 0 where it
    has not. `free` is how many slots of what a kubelet refused it the node's ledger had free all
    the time around the refusal, None where that is not known.
    """

    pod: str  # namespace/name
    uid: str
    created_ns: int
    phase: str
    requests: tuple[Request, ...]
    place: int
    node: str = ""  # where it is bound
    scheduler: str = ""
    reason: str = ""
    message: str = ""
    failed_ns: int = 0
    free: int | None = None

    @property
    def failed(self) -> bool:
        """Whether it will never run."""
        return self.phase == FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFact:
    """What the API server says of a node and nobody on the bus does.

    `schedulable` and `allocatable` are None while the controller has had no cause to look: it
    reads the few nodes that have what a waiting pod asks for.
    """

    name: str
    cordoned_for: str = ""  # generation of the change that slicewire has cordoned it for
    changing: bool = False  # its new layout does not count as successful yet
    schedulable: bool | None = None
    allocatable: tuple[tuple[str, int], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleTable:
    """A kubelet that goes on counting so many devices of a resource for pods that nobody knows.

    `over` once the kubelet has started anew: it makes its table again from what it finds.
    """

    node: str
    resource: str
    devices: int
    over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Those that ask for devices, oldest first; then the newest that have failed; then others.

    `more` is how many there are besides.
    `places` are sets of nodes with GPUs: pods of one kind may go to the same ones. `stale` names
    the kubelets that refuse pods what is free.
    """

    stamp: Stamp
    pods: tuple[WaitingPod, ...] = ()
    more: int = 0
    places: tuple[tuple[str, ...], ...] = ()
    nodes: tuple[NodeFact, ...] = ()
    stale: tuple[StaleTable, ...] = ()
