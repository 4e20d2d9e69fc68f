"""Pods that do not run: what is kept of them, which nodes they may go to, who is reminded."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from services.reconfigurer.controller import (
    census,
    fleet,
    measures,
    nodes,
    pods,
    selection,
    texts,
)
from services.reconfigurer.controller.outcome import Outcome, State
from services.reconfigurer.controller.snapshot import Snapshot
from shared.contract import names
from shared.contract.generation import Generation
from shared.contract.messages import Stamp
from shared.contract.waiting import MOST_FAILED, MOST_OTHERS, MOST_PODS, Waiting
from shared.telemetry import catalogue
from shared.waiting.reasons import Reason, Verdict
from tests.unit.waiting import world

GPU = "nvidia.com/gpu"
SECOND = 10**9
STAMP = Stamp(node="_controller", writer="c")
ZONE = {"nodeSelector": {"zone": "x"}}


def manifest(name: str = "a", *, at: int = 0, **spec: Any) -> dict[str, Any]:
    """A Pod object, made `at` so many seconds after midnight."""
    stamp = f"2026-01-01T00:{at // 60:02}:{at % 60:02}Z"
    return {
        "metadata": {
            "namespace": "ml",
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": stamp,
        },
        "spec": {"containers": [container(1)]} | spec,
        "status": {"phase": "Pending"},
    }


def container(count: int, resource: str = GPU, **more: Any) -> dict[str, Any]:
    """A container with a limit."""
    return {"name": "c", "resources": {"limits": {resource: str(count), "cpu": "2"}}} | more


def asked(**spec: Any) -> dict[str, tuple[int, int]]:
    """What a pod needs of each resource, and at most in one container."""
    return {each.resource: (each.count, each.largest) for each in pods.requests(spec)}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"containers": [container(1), container(2)]}, (3, 2), id="add up"),
        pytest.param(
            {"initContainers": [container(5)], "containers": [container(2)]}, (5, 5), id="init"
        ),
        pytest.param(
            {
                "initContainers": [container(1, restartPolicy="Always"), container(5)],
                "containers": [container(2)],
            },
            (6, 5),
            id="init beside a sidecar",
        ),
        pytest.param(
            {
                "initContainers": [container(3), container(2, restartPolicy="Always")],
                "containers": [container(2)],
            },
            (4, 3),
            id="a sidecar stays",
        ),
    ],
)
def test_a_pod_needs_what_the_scheduler_counts(
    spec: dict[str, Any], expected: tuple[int, int]
) -> None:
    """Init containers that end need room for themselves only; sidecars stay."""
    assert asked(**spec) == {GPU: expected}


def test_nothing_but_extended_resources_counts() -> None:
    """CPU and memory are nobody's devices; zero and what is no number are none."""
    limits = {"cpu": "1", "memory": "1Gi", GPU: "0", "nvidia.com/x": "many"}
    assert asked(containers=[{"name": "c", "resources": {"limits": limits}}]) == {}
    assert asked(containers=[{"name": "c"}]) == {}


def test_what_others_say_of_a_pod_is_kept() -> None:
    """The scheduler's sentence, where it is bound, and what a container waits for."""
    found = manifest()
    found["spec"]["nodeName"] = "gpu-a"
    found["status"] |= {
        "conditions": [
            {"type": "Ready", "status": "False", "message": "no"},
            {"type": "PodScheduled", "status": "False", "message": "x" * 2000},
        ],
        "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}],
    }
    seen = pods.of(found, 7).pod
    assert (seen.pod, seen.node, seen.reason) == ("ml/a", "gpu-a", "ErrImagePull")
    assert len(seen.scheduler) == 512
    assert seen.failed_ns == 0
    assert seen.created_ns == 1767225600 * SECOND


def test_when_a_pod_has_failed() -> None:
    """Its status was written then, as its managed fields say; else when we have seen it."""
    found = manifest()
    found["status"] = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
    assert pods.of(found, 7).pod.failed_ns == 7
    found["metadata"]["managedFields"] = [
        {"subresource": "status", "time": "2026-01-01T00:00:09Z"},
        {"time": "2026-01-01T00:00:30Z"},
        {"subresource": "status", "time": "nonsense"},
    ]
    assert pods.of(found, 7).pod.failed_ns == 1767225609 * SECOND


def affinity(*terms: Any) -> dict[str, Any]:
    """A required node affinity."""
    required = {selection.REQUIRED: {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    """One term with one expression."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("spec", "holds"),
    [
        ({}, True),
        (ZONE, True),
        ({"nodeSelector": {"zone": "y"}}, False),
        (affinity(term("zone", "In", "y", "x")), True),
        (affinity(term("zone", "NotIn", "x")), False),
        (affinity(term("other", "NotIn", "x")), True),
        (affinity(term("zone", "Exists")), True),
        (affinity(term("zone", "DoesNotExist")), False),
        (affinity(term("cards", "Gt", "3")), True),
        (affinity(term("cards", "Lt", "3")), False),
        (affinity(term("other", "Gt", "3")), False),
        (affinity(term("zone", "In", "y"), term("cards", "Exists")), True),
        (affinity({}), False),
        (affinity(), False),
        (affinity(term("zone", "NewOperator", "y")), True),
        (
            affinity(
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-a"]}]}
            ),
            True,
        ),
        (affinity(term("zone", "In", "x")) | {"nodeSelector": {"zone": "y"}}, False),
    ],
)
def test_which_nodes_a_pod_may_go_to(spec: dict[str, Any], holds: bool) -> None:
    """By selector and required affinity; what cannot be read keeps no node away."""
    labels = {"zone": "x", "cards": "8"}
    found = selection.chosen(selection.of(spec), [("gpu-a", labels), ("other", {})])
    assert ("gpu-a" in found) is holds


def composed(
    *found: dict[str, Any], looked_at: dict[str, Snapshot] | None = None, **view: Any
) -> Waiting:
    """The value for these pods, on three nodes of which two have GPUs."""
    present = {"nvidia.com/gpu.present": "true"}
    known = {
        name: nodes.Node(name=name, labels=labels, annotations=annotations)
        for name, labels, annotations in (
            ("gpu-a", present | {"zone": "x"}, {names.CORDON_ANNOTATION: "1.2"}),
            ("gpu-b", present, {}),
            ("plain", {"zone": "x"}, {}),
        )
    }
    fleet_ = fleet.Fleet(
        config_label="config",
        intents={},
        config_map=texts.ConfigMap(name="sharing"),
        nodes=known,
        **view,
    )
    return census.compose(STAMP, [pods.of(each, 0) for each in found], fleet_, looked_at or {})


def test_the_value_of_the_fleet() -> None:
    """Oldest first, pods of a kind with one place, and of nodes only what is not obvious."""
    told = composed(manifest("b", at=5), manifest("a", at=9, **ZONE), manifest("c", at=1))
    assert [(each.pod, told.places[each.place]) for each in told.pods] == [
        ("ml/c", ("gpu-a", "gpu-b")),
        ("ml/b", ("gpu-a", "gpu-b")),
        ("ml/a", ("gpu-a",)),
    ]
    assert len(told.places) == 2
    assert [(each.name, each.cordoned_for) for each in told.nodes] == [("gpu-a", "1.2")]


def test_what_is_known_of_nodes_that_were_looked_at() -> None:
    """Whether they take pods, what the kubelet reports of ours, and that a change goes on."""
    ledger = world.node("gpu-b", free=4).ledger
    assert ledger is not None
    looked = Snapshot(name="gpu-b", unschedulable=True, allocatable={GPU: 3, "other.com/x": 1})
    outcome = Outcome(state=State.PENDING, reason="", sentence="", generation=Generation(1, 1))
    told = composed(
        looked_at={"gpu-b": looked}, ledgers={"gpu-b": ledger}, outcomes={"gpu-b": outcome}
    )
    (fact,) = (each for each in told.nodes if each.name == "gpu-b")
    assert (fact.schedulable, fact.allocatable, fact.changing) == (False, ((GPU, 3),), True)


def test_no_kind_of_pod_crowds_out_another() -> None:
    """Pods that wait for devices come first; old failures and other pods are bounded."""
    failed = [manifest(f"f{number:03}", at=number) for number in range(MOST_FAILED + 9)]
    for each in failed:
        each["status"]["phase"] = "Failed"
    others = [manifest(f"o{number:03}", containers=[]) for number in range(MOST_OTHERS + 9)]
    told = composed(manifest("w", at=900), *failed, *others)
    assert [each.pod for each in told.pods[:2]] == ["ml/w", f"ml/f{MOST_FAILED + 8:03}"]
    assert len(told.pods) == 1 + MOST_FAILED + MOST_OTHERS
    assert told.more == 18
    waits = [manifest(f"w{number:03}") for number in range(MOST_PODS + 1)]
    assert {each.phase for each in composed(*failed, *waits).pods} == {"Pending"}


FOUND = Verdict(pod="ml/a", reason=Reason.ALL_HELD, sentence="they are held", hint="by x")


def test_a_reminder_has_a_name_that_any_leader_gives_it() -> None:
    """Once in ten minutes for each reason, counted from when the pod was made."""
    waits = pods.of(manifest(), 0).pod
    at = waits.created_ns

    def said(after_s: float, found: Verdict = FOUND) -> Any:
        return census.reminder(waits, found, at + int(after_s * SECOND), 30)

    assert said(29) is None
    assert (said(30).message, said(30).reason, said(30).warning) == (
        "they are held. by x",
        "AllHeld",
        True,
    )
    assert said(30).about.uid == "uid-a"
    assert said(30).event_name == said(599).event_name
    assert said(600).event_name != said(599).event_name
    other = dataclasses.replace(FOUND, reason=Reason.UNHEALTHY)
    assert said(60, other).event_name != said(60).event_name


@pytest.mark.parametrize("reason", [Reason.NOT_OURS, Reason.RUNNING])
def test_what_is_not_ours_is_not_told(reason: Reason) -> None:
    """The scheduler does; and nobody is reminded of what has failed."""
    waits = pods.of(manifest(), 0).pod
    late = waits.created_ns + 900 * SECOND
    assert census.reminder(waits, dataclasses.replace(FOUND, reason=reason), late, 30) is None
    failed = dataclasses.replace(waits, phase="Failed")
    assert census.reminder(failed, FOUND, late, 30) is None


def test_waiting_pods_are_counted_by_reason() -> None:
    """Every reason has a series, so that a graph of one that comes up begins at 0."""
    waits = pods.of(manifest(), 0).pod
    sick = dataclasses.replace(FOUND, reason=Reason.UNHEALTHY)
    samples = list(measures.waiting([(waits, FOUND), (waits, FOUND), (waits, sick)]))
    by_reason = {
        str(dict(each.labels)["reason"]): each.value
        for each in samples
        if each.instrument is catalogue.WAITING_PODS
    }
    assert by_reason == {each.value: 0 for each in Reason if each is not Reason.RUNNING} | {
        "AllHeld": 2,
        "Unhealthy": 1,
    }
    (slots,) = (each for each in samples if each.instrument is catalogue.WAITING_SLOTS)
    assert (dict(slots.labels), slots.value) == ({"resource": GPU}, 3)
