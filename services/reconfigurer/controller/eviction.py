"""Who stands in the way of a change, and what to do with each of them. Pure.

The agent names holders as the kubelet does, by namespace and pod. Before a pod is evicted its
object has to say that it is on this node, has not ended and holds something that we serve; its
UID goes with the eviction. While the hold stands nobody can get one of the slots, so a pod of the
same name that comes later is not the holder: a name is evicted once in a change.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from services.reconfigurer.controller import notes
from shared.contract import names
from shared.domain.slots import Holder

TERMINAL = ("Succeeded", "Failed")
DAEMON_SET = "DaemonSet"
STATIC = "Node"  # owns what the API server shows of pods that the kubelet has from a file


class Answer(enum.StrEnum):
    """What a policy says of pods that nobody, or a DaemonSet, would bring back elsewhere."""

    EVICT = "evict"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """What counts of a pod. `resources` are the extended ones that its containers ask for."""

    key: str  # namespace/name
    uid: str
    node: str
    phase: str = ""
    ending: bool = False
    admitted: bool = True  # the kubelet has said something of its containers
    owner: str = ""  # kind of its controller, empty for a bare pod
    resources: frozenset[str] = frozenset()
    selector: frozenset[str] = frozenset()  # node labels that it insists on

    @property
    def over(self) -> bool:
        """Whether its containers have ended."""
        return self.phase in TERMINAL

    def holds(self, served: frozenset[str]) -> bool:
        """Whether it asks for something that we serve."""
        return not self.over and self.asks(served)

    def asks(self, served: frozenset[str]) -> bool:
        """Whether it asks for something that we serve, or did while it ran."""
        return bool(self.resources & served)


@dataclass(frozen=True, slots=True)
class Later:
    """An eviction that was refused: when to ask again, in loop time, and why it was."""

    at: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the values say of pods, and where the change stands."""

    node: str
    served: frozenset[str]
    bare: Answer
    daemon_set: Answer
    held: bool  # the allocator has acknowledged the hold
    evicted: Mapping[str, str] = field(default_factory=dict)  # UIDs by key, in this change
    later: Mapping[str, Later] = field(default_factory=dict)  # refused evictions, by UID
    now: float = 0.0


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict this pod, and no other of its name; `refused` is why it was not when asked last."""

    pod: Pod
    refused: str = ""

    @property
    def key(self) -> str:
        """Its namespace and name."""
        return self.pod.key

    @property
    def why(self) -> str:
        """What is to be said of it while it is there."""
        return self.refused or "is being evicted"


@dataclass(frozen=True, slots=True)
class Wait:
    """It will go, or may be evicted later."""

    key: str
    why: str


@dataclass(frozen=True, slots=True)
class Leave:
    """It is not ours to evict; the agent will see that it holds nothing."""

    key: str
    why: str


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing of it runs any more; the kubelet goes on naming it, before Kubernetes 1.34."""

    key: str
    why: str = "has ended and is not waited for"


@dataclass(frozen=True, slots=True)
class Refuse:
    """A policy protects it: the change fails."""

    key: str
    why: str


Verdict = Evict | Wait | Leave | Ended | Refuse


def of(found: Mapping[str, Any]) -> Pod:
    """Read a Pod object."""
    metadata, spec = found["metadata"], found.get("spec") or {}
    status = found.get("status") or {}
    return Pod(
        key=f"{metadata['namespace']}/{metadata['name']}",
        uid=metadata["uid"],
        node=spec.get("nodeName", ""),
        phase=status.get("phase", ""),
        ending="deletionTimestamp" in metadata,
        admitted=bool(status.get("containerStatuses") or status.get("initContainerStatuses")),
        owner=_owner(metadata),
        resources=frozenset(_resources(spec)),
        selector=frozenset(spec.get("nodeSelector") or ()),
    )


def verdicts(
    blockers: Iterable[Holder], pods: Mapping[str, Pod], rules: Rules
) -> tuple[Verdict, ...]:
    """Decide for every pod that blocks; `pods` are those that exist, by key."""
    keys = sorted({holder.pod_key for holder in blockers})
    return tuple(_verdict(key, pods.get(key), rules) for key in keys)


def unadmitted(pods: Iterable[Pod], served: frozenset[str]) -> tuple[str, ...]:
    """Keys of pods that are bound and may still ask the kubelet for a slot of ours."""
    return tuple(
        sorted(
            pod.key
            for pod in pods
            if not pod.admitted and not pod.ending and pod.phase != "Running" and pod.holds(served)
        )
    )


def of_components(pods: Iterable[Pod], labels: Iterable[str]) -> tuple[str, ...]:
    """Keys of pods that run because of component labels: they go once those are paused."""
    paused = frozenset(labels)
    return tuple(sorted(pod.key for pod in pods if not pod.over and pod.selector & paused))


def noted(annotations: Mapping[str, str]) -> dict[str, str]:
    """UIDs by key of the pods that were evicted for the change that goes on."""
    return notes.read(annotations, names.EVICTED_ANNOTATION)


def _verdict(key: str, pod: Pod | None, rules: Rules) -> Verdict:
    if pod is None:
        return Wait(key, "is gone; the allocator has not noticed yet")
    if left := _not_the_holder(pod, rules):
        return Leave(key, left)
    if pod.over:
        return Ended(key)
    if pod.ending:
        return Wait(key, "is ending, within its grace period")
    refused = rules.later.get(pod.uid)
    if refused is not None and refused.at > rules.now:
        return Wait(key, refused.why)
    return _by_owner(pod, rules)


def _by_owner(pod: Pod, rules: Rules) -> Verdict:
    """Who would bring it back, and where, decides whether it may be evicted, and when."""
    if pod.owner == STATIC:
        return Refuse(pod.key, "is a static pod: it goes when its file on the node does")
    if not pod.owner and rules.bare is Answer.FAIL:
        why = "has no controller that would bring it back, and drain.barePods is fail"
        return Refuse(pod.key, why)
    if pod.owner == DAEMON_SET and rules.daemon_set is Answer.FAIL:
        return Refuse(pod.key, "belongs to a DaemonSet, and drain.daemonSetPods is fail")
    if pod.owner == DAEMON_SET and not rules.held:
        return Wait(pod.key, "belongs to a DaemonSet and would be back before the hold stands")
    refused = rules.later.get(pod.uid)
    return Evict(pod, refused.why if refused else "")


def _not_the_holder(pod: Pod, rules: Rules) -> str:
    if pod.node != rules.node:
        return f"is on {pod.node or 'no node'}"
    if not pod.asks(rules.served):
        return "asks for nothing that is served here"
    if rules.evicted.get(pod.key, pod.uid) != pod.uid:
        return "is another pod of the name of one that was evicted"
    return ""


def _owner(metadata: Mapping[str, Any]) -> str:
    owners = metadata.get("ownerReferences") or ()
    return next((str(owner["kind"]) for owner in owners if owner.get("controller")), "")


def _resources(spec: Mapping[str, Any]) -> set[str]:
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    return {
        name
        for container in containers
        for name in ((container.get("resources") or {}).get("limits") or {})
        if "/" in name
    }
