"""One entry of a story's `steps` → a `Step`. A reader remembers what earlier steps brought.

So a step that names a node, pod or step that is not there is refused before anything is played.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from services.rehearsal import bodies, cast, conditions, vocabulary
from services.rehearsal import spot as spots
from services.rehearsal.spot import Spot
from services.rehearsal.story import (
    DEFAULT_WITHIN_S,
    NODE_SERVICES,
    About,
    Action,
    Budget,
    ConfigMap,
    Container,
    Cordon,
    Delete,
    Expect,
    Fault,
    Label,
    Manage,
    Mark,
    Never,
    Node,
    Owner,
    Pod,
    Reboot,
    Say,
    Service,
    Step,
    Uses,
    Verb,
    Wait,
)
from shared.sharing import suggest
from shared.simulation.gpu import answers, faults
from shared.simulation.kube.apiserver import defaults, kinds

FAULT_KEYS = (
    *("node", "gpu", "xid", "instance", "lost", "nvml"),
    *("modeStaysPending", "clients", "mps"),
)
CLIENT_KEYS = ("gpu", "name", "pid")
FAULT_LEAST = {"xid": 1, "instance": 0, "nth": 1, "times": 1, "pid": 1}
NVML_KEYS = ("call", "gpu", "nth", "error", "times", "delay")
POD_KEYS = (
    *("name", "namespace", "requests", "containers", "init", "node", "labels"),
    *("owner", "graceSeconds", "uses"),
)
MOST_PERCENT = 100
IMAGE = "example.com/pause:1"  # any will do where a pod is only looked at
BUDGET_KEYS = ("name", "namespace", "selector", "minAvailable")


@dataclass(slots=True)
class Reader:
    """Reads the steps of one story in order."""

    nodes: Mapping[str, Node]
    mps: bool = False  # whether the nodes have an MPS service
    within_s: float = DEFAULT_WITHIN_S  # of expectations that do not say it
    pods: set[str] = field(default_factory=set)
    marks: set[str] = field(default_factory=set)  # names and kinds of the steps so far
    _awaited: list[Spot] = field(default_factory=list)  # pods that `never` names ahead

    @property
    def kinds(self) -> dict[str, Callable[[Spot], Action]]:
        """The reader of each kind of step, by its key."""
        return {
            "say": lambda each: Say(text=each.text()),
            "configMap": self._config_map,
            "label": self._label,
            "pod": self._pod,
            "delete": self._delete,
            "pdb": _budget,
            "cordon": lambda each: Cordon(node=self._only_node(each), unschedulable=True),
            "uncordon": lambda each: Cordon(node=self._only_node(each), unschedulable=False),
            "fault": lambda each: self._fault(each, heal=False),
            "heal": lambda each: self._fault(each, heal=True),
            **{verb.value: self._manager(verb) for verb in Verb},
            "reboot": lambda each: Reboot(node=self._only_node(each)),
            "mark": lambda each: Mark(name=each.text()),
            "wait": lambda each: Wait(seconds=each.seconds()),
            "expect": self._expect,
            "never": lambda each: Never(conditions=conditions.read(each, (), self._check_ahead)),
        }

    def step(self, spot: Spot) -> Step | None:
        """Read one step; None after it was refused."""
        readers = self.kinds
        parts = spot.mapping(("as", *readers))
        kinds = [key for key in parts if key != "as"]
        if len(kinds) != 1:
            if kinds or (spot.is_map and spot.mapping().keys() <= {"as"}):
                spot.refuse(f"a step has one of {suggest.listed(readers)}, and `as`")
            return None
        kind = kinds[0]
        action = readers[kind](parts[kind])
        name = self._name(parts.get("as"))
        self.marks |= {kind, name} - {""}
        at = spot.place
        return Step(line=at.line, column=at.column, kind=kind, action=action, name=name)

    def end(self) -> None:
        """Refuse what a step has counted on and none has brought."""
        for spot in self._awaited:
            self._known_pod(spot)

    def _name(self, spot: Spot | None) -> str:
        name = spot.text() if spot else ""
        if spot and name in self.marks:
            spot.refuse(f'a step before this one is already called "{name}"')
        return name

    def _config_map(self, spot: Spot) -> ConfigMap:
        parts = spot.mapping(("name", "data"))
        spots.required(spot, parts, "name", "data")
        name = parts["name"].text() if "name" in parts else ""
        if "data" not in parts or parts["data"].is_null:
            return ConfigMap(name=name, data=None)
        data = {key: each.written() for key, each in parts["data"].mapping().items()}
        body = {"metadata": {"name": name}, "data": data}
        cast.refuse_invalid(spot, kinds.CONFIG_MAP, body)
        return ConfigMap(name=name, data=data)

    def _label(self, spot: Spot) -> Label:
        parts = spot.mapping(("node", "set"))
        spots.required(spot, parts, "node", "set")
        changes = parts["set"].mapping() if "set" in parts else {}
        node = self._node(parts.get("node"))
        labels = {key: None if each.is_null else each.word() for key, each in changes.items()}
        worn = {key: value or "" for key, value in labels.items()}
        cast.refuse_invalid(spot, kinds.NODE, {"metadata": {"name": node, "labels": worn}})
        return Label(node=node, labels=labels)

    def _pod(self, spot: Spot) -> Pod:
        parts = spot.mapping(POD_KEYS)
        spots.required(spot, parts, "name")
        if ("requests" in parts) == ("containers" in parts):
            spot.refuse("a pod has either requests or containers")
        namespace = parts["namespace"].text() if "namespace" in parts else "default"
        name = parts["name"].text() if "name" in parts else ""
        if name:
            self.pods.add(f"{namespace}/{name}")
        pod = Pod(
            name=name,
            containers=_containers(parts),
            namespace=namespace,
            node=self._node(parts["node"]) if "node" in parts else None,
            labels=cast.labels(parts.get("labels")),
            init=_init(parts["init"]) if "init" in parts else (),
            owner=_owner(parts["owner"]) if "owner" in parts else Owner.NONE,
            grace_seconds=vocabulary.count(parts["graceSeconds"])
            if "graceSeconds" in parts
            else None,
            uses=_uses(parts["uses"]) if "uses" in parts else None,
        )
        body = bodies.pod(pod, IMAGE)
        defaults.fill(kinds.POD, body)
        cast.refuse_invalid(spot, kinds.POD, body)
        _check_namespace(spot, namespace)
        return pod

    def _delete(self, spot: Spot) -> Delete:
        parts = spot.mapping(("pod", "force"))
        spots.required(spot, parts, "pod")
        return Delete(
            pod=self._known_pod(parts.get("pod")),
            force="force" in parts and parts["force"].truth(),
        )

    def _fault(self, spot: Spot, *, heal: bool) -> Fault:
        parts = spot.mapping(FAULT_KEYS)
        spots.required(spot, parts, "node")
        node = self._node(parts.get("node"))
        self._numbers(node, parts)
        if "nvml" in parts:
            self._numbers(node, parts["nvml"].mapping(NVML_KEYS))
        for client in parts["clients"].items() if "clients" in parts else ():
            self._numbers(node, client.mapping(CLIENT_KEYS))
        what = {key: each.plain() for key, each in parts.items() if key != "node"}
        if spot.clean:
            _check_fault(spot, what)
        return Fault(node=node, what=what, heal=heal)

    def _numbers(self, node: str, parts: Mapping[str, Spot]) -> None:
        """Refuse numbers in the map of a fault that could mean nothing."""
        if "gpu" in parts:
            self._gpu(node, parts["gpu"])
        for key, least in FAULT_LEAST.items():
            always = key == "times" and key in parts and parts[key].plain() == faults.ALWAYS
            if key in parts and not always:
                parts[key].whole(least=least)

    def _manager(self, verb: Verb) -> Callable[[Spot], Action]:
        def read(spot: Spot) -> Manage:
            parts = spot.mapping(("service", "node"))
            if not spots.required(spot, parts, "service"):
                return Manage(verb=verb, service=Service.BUS)
            word = parts["service"].choice([each.value for each in Service], "service")
            if word not in list(Service):
                return Manage(verb=verb, service=Service.BUS)
            service = Service(word)
            if service is Service.MPS and not self.mps:
                parts["service"].refuse(
                    "no MPS service runs", "write values: {mps: {enabled: true}}"
                )
            if service in NODE_SERVICES:
                spots.required(spot, parts, "node")
            elif "node" in parts:
                parts["node"].refuse(f"the {service} belongs to no node", "leave the node out")
            return Manage(verb=verb, service=service, node=self._node(parts.get("node")) or None)

        return read

    def _expect(self, spot: Spot) -> Expect:
        parts = spot.mapping() if spot.is_map else {}  # what it is instead, conditions tell
        return Expect(
            conditions=conditions.read(spot, ("within", "for"), self._check),
            within_s=parts["within"].seconds() if "within" in parts else self.within_s,
            for_s=parts["for"].seconds() if "for" in parts else 0.0,
        )

    def _check_ahead(self, about: About, parts: Mapping[str, Spot]) -> None:
        """As `_check`, for what holds to the end of the story: a pod may still be to come."""
        if about is About.POD:
            self._awaited.append(parts["pod"])
        else:
            self._check(about, parts)

    def _check(self, about: About, parts: Mapping[str, Spot]) -> None:
        """Refuse conditions on nodes, pods and steps that the story does not have."""
        match about:
            case About.NODE:
                node = self._node(parts["node"])
                for key in parts.keys() & vocabulary.BY_GPU:
                    self._gpus(node, parts[key])
            case About.POD:
                self._known_pod(parts["pod"])
            case About.WHO:
                node = self._node(parts.get("node"))
                if "gpu" in parts and not parts["gpu"].is_text:
                    self._gpu(node, parts["gpu"])
            case About.WHY if "pod" in parts:
                self._known_pod(parts["pod"])
            case About.TRACE if "from" in parts:
                parts["from"].choice(sorted(self.marks), "earlier step")

    def _only_node(self, spot: Spot) -> str:
        parts = spot.mapping(("node",))
        spots.required(spot, parts, "node")
        return self._node(parts.get("node"))

    def _node(self, spot: Spot | None) -> str:
        return spot.choice(list(self.nodes), "node") if spot else ""

    def _known_pod(self, spot: Spot | None) -> str:
        name = spot.text() if spot else ""
        key = vocabulary.pod_key(name)
        if spot and name and key not in self.pods:
            hint = suggest.did_you_mean(key, self.pods)
            when = "" if spot in self._awaited else " before this one"
            spot.refuse(f'no step{when} makes the pod "{key}"', hint)
        return key

    def _gpus(self, node: str, spot: Spot) -> None:
        for name, each in spot.mapping().items() if spot.is_map else ():
            if name.isdecimal():  # the shape refuses all else
                self._there(node, int(name), each)

    def _gpu(self, node: str, spot: Spot) -> int:
        index = vocabulary.count(spot)
        self._there(node, index, spot)
        return index

    def _there(self, node: str, index: int, spot: Spot) -> None:
        count = len(self.nodes[node].gpus) if node in self.nodes else index + 1
        if index >= count:
            spot.refuse(f"the node {node} has {_indexes(count)}")


def _indexes(count: int) -> str:
    """The indexes that a node's GPUs have."""
    return f"GPUs 0 to {count - 1}" if count > 1 else "GPU 0 only" if count else "no GPU"


def _containers(parts: Mapping[str, Spot]) -> tuple[Container, ...]:
    if "containers" not in parts:
        requests = vocabulary.counts(parts["requests"]) if "requests" in parts else {}
        return (Container(name="main", requests=requests),)
    return tuple(_container(spot) for spot in parts["containers"].items())


def _container(spot: Spot) -> Container:
    parts = spot.mapping(("name", "requests"))
    spots.required(spot, parts, "name")
    return Container(
        name=parts["name"].text() if "name" in parts else "",
        requests=vocabulary.counts(parts["requests"]) if "requests" in parts else {},
    )


def _init(spot: Spot) -> tuple[Container, ...]:
    parts = spot.mapping(("requests",))
    spots.required(spot, parts, "requests")
    requests = vocabulary.counts(parts["requests"]) if "requests" in parts else {}
    return (Container(name="init", requests=requests),)


def _uses(spot: Spot) -> Uses:
    parts = spot.mapping(("memoryMiB", "sm"))
    spots.required(spot, parts, "memoryMiB")
    return Uses(
        memory_mib=vocabulary.count(parts["memoryMiB"]) if "memoryMiB" in parts else 0,
        sm_percent=_percent(parts["sm"]) if "sm" in parts else 0,
    )


def _percent(spot: Spot) -> int:
    percent = vocabulary.count(spot)
    if percent > MOST_PERCENT:
        spot.refuse(f"found {percent}, accepted is a part of the time from 0 to {MOST_PERCENT}")
    return percent


def _budget(spot: Spot) -> Budget:
    parts = spot.mapping(BUDGET_KEYS)
    spots.required(spot, parts, "name", "selector", "minAvailable")
    budget = Budget(
        name=parts["name"].text() if "name" in parts else "",
        selector=cast.labels(parts.get("selector")),
        min_available=_amount(parts["minAvailable"]) if "minAvailable" in parts else 0,
        namespace=parts["namespace"].text() if "namespace" in parts else "default",
    )
    cast.refuse_invalid(spot, kinds.BUDGET, bodies.budget(budget))
    _check_namespace(spot, budget.namespace)
    return budget


def _check_namespace(spot: Spot, name: str) -> None:
    """Refuse a name that no namespace can have: a story makes the one that it names."""
    cast.refuse_invalid(spot, kinds.NAMESPACE, {"metadata": {"name": name}})


def _amount(spot: Spot) -> int | str:
    """Read a whole number, or a percentage as a text."""
    if not spot.is_text:
        return vocabulary.count(spot)
    text = spot.text()
    if not (text.endswith("%") and text[:-1].isdecimal() and int(text[:-1]) <= MOST_PERCENT):
        spot.refuse(
            f'found "{text}", accepted is a whole number or a percentage', 'write 1 or "50%"'
        )
    return text


def _owner(spot: Spot) -> Owner:
    word = spot.choice([each.value for each in Owner], "owner")
    return Owner(word) if word in list(Owner) else Owner.NONE


def _check_fault(spot: Spot, what: Mapping[str, Any]) -> None:
    """Refuse a fault that the simulated GPUs cannot have, in their own words."""
    try:
        faults.read(what, answers.ANSWERS)
    except faults.FaultError as error:
        spot.refuse(str(error))
