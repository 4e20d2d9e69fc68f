"""Where pods fit, as the scheduler decides it; no server, no loop."""

from __future__ import annotations

from typing import Any

from shared.simulation.kube import placement
from tests.support.one_node import GPU, pod_object


def node(name: str, gpus: int, **extra: Any) -> dict[str, Any]:
    """Make a node with so many allocatable GPUs."""
    labels = extra.pop("labels", {})
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": extra,
        "status": {"allocatable": {GPU: str(gpus)}},
    }


def pod(gpus: int, on: str | None = None, phase: str = "Pending", **spec: Any) -> dict[str, Any]:
    """Make a pod that asks for so many GPUs."""
    made = pod_object("p", {GPU: gpus}, node=on)
    made["spec"].update(spec)
    return made | {"status": {"phase": phase}}


def test_a_pod_goes_to_the_node_with_the_fewest_pods() -> None:
    """Nodes fill evenly."""
    nodes = [node("a", 4), node("b", 4)]
    assert placement.place(pod(1), nodes, [pod(1, on="a")]).node == "b"


def test_requests_of_bound_pods_count_until_they_end() -> None:
    """A pod that ended takes nothing, one that is only bound does."""
    full = [pod(2, on="a"), pod(2, on="a", phase="Running")]
    assert placement.place(pod(1), [node("a", 4)], full).node is None
    ended = [pod(2, on="a", phase="Failed"), pod(2, on="a", phase="Running")]
    assert placement.place(pod(1), [node("a", 4)], ended).node == "a"


def test_init_containers_count_by_the_largest() -> None:
    """They end before the others start, so they don't add up."""
    wanting = pod_object("p", {GPU: 1}, {GPU: 1}, init=({GPU: 3}, {GPU: 1}), node=None)
    assert placement.place(wanting, [node("a", 3)], []).node == "a"
    assert placement.place(wanting, [node("a", 2)], []).node is None


def test_what_keeps_a_pod_off_is_said_by_count() -> None:
    """The sentence is the real scheduler's."""
    nodes = [node("a", 0), node("b", 2), node("c", 8, unschedulable=True)]
    found = placement.place(pod(3), nodes, [])
    assert found.message == (
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient nvidia.com/gpu."
    )


def test_taints_keep_off_pods_that_do_not_tolerate_them() -> None:
    """A toleration by key and effect lets them on."""
    tainted = node("a", 4, taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])
    assert placement.place(pod(1), [tainted], []).node is None
    tolerant = pod(1, tolerations=[{"key": "gpu", "operator": "Exists"}])
    assert placement.place(tolerant, [tainted], []).node == "a"


def test_a_node_selector_is_honoured() -> None:
    """Only nodes with all of its labels come into question."""
    nodes = [node("a", 4), node("b", 4, labels={"team": "vision"})]
    assert placement.place(pod(1, nodeSelector={"team": "vision"}), nodes, []).node == "b"
    found = placement.place(pod(1, nodeSelector={"team": "sound"}), nodes, [])
    assert found.message == (
        "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
    )
