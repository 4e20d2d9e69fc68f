"""Which of a change's blockers are evicted, and which are not."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from services.reconfigurer.controller import evicting, eviction, kube
from services.reconfigurer.controller.eviction import (
    Answer,
    Ended,
    Evict,
    Later,
    Leave,
    Pod,
    Refuse,
    Verdict,
    Wait,
)
from shared.contract import names
from shared.domain.slots import Holder

GPU = "nvidia.com/gpu"
RULES = eviction.Rules(
    node="gpu-a",
    served=frozenset({GPU}),
    bare=Answer.EVICT,
    daemon_set=Answer.EVICT,
    held=True,
)
POD = Pod(
    key="default/b",
    uid="u1",
    node="gpu-a",
    phase="Running",
    owner="ReplicaSet",
    resources=frozenset({GPU}),
)


def verdict(pod: Pod | None, rules: eviction.Rules = RULES) -> Verdict:
    """What becomes of the pod behind the holder `default/b`."""
    blockers = (Holder("default", "b", "main"), Holder("default", "b", "side"))
    pods = {} if pod is None else {pod.key: pod}
    (found,) = eviction.verdicts(blockers, pods, rules)
    return found


def changed(**fields: Any) -> Pod:
    return dataclasses.replace(POD, **fields)


def test_a_blocker_is_evicted_once_however_many_containers_hold() -> None:
    """By its UID."""
    assert verdict(POD) == Evict(POD)


def test_u069_only_those_that_block_are_looked_at() -> None:
    """A pod on another GPU is no blocker, whatever it holds."""
    other = changed(key="default/a", uid="u2")
    found = eviction.verdicts(
        (Holder("default", "b", "main"),), {POD.key: POD, other.key: other}, RULES
    )
    assert found == (Evict(POD),)


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(changed(node="gpu-b"), id="on another node"),
        pytest.param(changed(node=""), id="not bound"),
        pytest.param(changed(resources=frozenset()), id="asks for no device"),
        pytest.param(changed(resources=frozenset({"x.com/nic"})), id="asks for another's device"),
    ],
)
def test_what_cannot_be_the_holder_is_left(pod: Pod) -> None:
    assert isinstance(verdict(pod), Leave)


@pytest.mark.parametrize("phase", eviction.TERMINAL)
def test_a_holder_that_has_ended_is_told_as_one(phase: str) -> None:
    """Before Kubernetes 1.34 the kubelet goes on listing it: nothing of it runs, nothing to do."""
    assert isinstance(verdict(changed(phase=phase)), Ended)
    assert isinstance(verdict(changed(phase=phase, ending=True)), Ended), "a finalizer keeps it"
    assert isinstance(verdict(changed(phase=phase, node="gpu-b")), Leave)
    assert isinstance(verdict(changed(phase=phase, resources=frozenset())), Leave)


def test_a_static_pod_fails_the_change() -> None:
    """An eviction takes only its mirror, and the kubelet makes that anew."""
    found = verdict(changed(owner="Node"))
    assert isinstance(found, Refuse)
    assert "static pod" in found.why
    assert isinstance(verdict(changed(owner="Node", phase="Failed")), Ended)


def test_a_pod_that_is_gone_or_ending_is_waited_for() -> None:
    """U067: within its grace, and until the allocator has noticed; never evicted again."""
    assert isinstance(verdict(None), Wait)
    assert isinstance(verdict(changed(ending=True)), Wait)


def test_a_new_pod_of_the_name_of_an_evicted_one_is_left() -> None:
    """A StatefulSet brings it back under its name; it cannot hold a withheld slot."""
    rules = dataclasses.replace(RULES, evicted={POD.key: "u1"})
    assert verdict(POD, rules) == Evict(POD), "the eviction may not have arrived"
    assert isinstance(verdict(changed(uid="u9"), rules), Leave)


def test_a_refusal_is_waited_out() -> None:
    """The same pod later, not others instead; the words stay until it goes."""
    rules = dataclasses.replace(RULES, later={"u1": Later(10.0, "a webhook says no")}, now=9.0)
    assert verdict(POD, rules) == Wait(POD.key, "a webhook says no")
    again = verdict(POD, dataclasses.replace(rules, now=10.0))
    assert again == Evict(POD, "a webhook says no")
    assert again.why == "a webhook says no"
    assert verdict(POD).why == "is being evicted"


def test_daemon_set_pods_are_evicted_only_behind_an_acknowledged_hold() -> None:
    """They come back to this node whatever its cordon says."""
    pod = changed(owner="DaemonSet")
    assert isinstance(verdict(pod, dataclasses.replace(RULES, held=False)), Wait)
    assert verdict(pod) == Evict(pod)
    fail = dataclasses.replace(RULES, daemon_set=Answer.FAIL)
    assert isinstance(verdict(pod, fail), Refuse)


def test_bare_pods_go_by_policy() -> None:
    """Nobody brings them back."""
    pod = changed(owner="")
    assert verdict(pod) == Evict(pod)
    refused = verdict(pod, dataclasses.replace(RULES, bare=Answer.FAIL))
    assert isinstance(refused, Refuse)
    assert "drain.barePods" in refused.why


def test_pods_that_may_still_ask_for_a_slot_are_unadmitted() -> None:
    """Bound, and the kubelet has said nothing of them."""
    bound = changed(phase="Pending", admitted=False)
    assert eviction.unadmitted([bound], RULES.served) == ("default/b",)
    for other in (
        changed(phase="Pending", admitted=True),
        changed(phase="Running", admitted=False),
        changed(phase="Failed", admitted=False),
        changed(phase="Pending", admitted=False, ending=True),
        changed(phase="Pending", admitted=False, resources=frozenset()),
    ):
        assert not eviction.unadmitted([other], RULES.served)


def test_pods_of_paused_components_are_known_by_their_node_selector() -> None:
    """They go by themselves once the label has changed; until then they hold NVML."""
    label = "nvidia.com/gpu.deploy.dcgm"
    dcgm = changed(key="gpu-operator/dcgm", selector=frozenset({label}), resources=frozenset())
    assert eviction.of_components([dcgm, POD], [label]) == ("gpu-operator/dcgm",)
    assert not eviction.of_components([dataclasses.replace(dcgm, phase="Failed")], [label])
    assert not eviction.of_components([dcgm], [])


def test_a_pod_object_is_read() -> None:
    """With what init containers ask for, and the kind of its controller."""
    found = eviction.of(
        {
            "metadata": {
                "namespace": "team",
                "name": "b",
                "uid": "u1",
                "ownerReferences": [
                    {"kind": "Note"},
                    {"kind": "StatefulSet", "controller": True},
                ],
                "deletionTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {
                "nodeName": "gpu-a",
                "nodeSelector": {"a": "b"},
                "containers": [{"name": "c", "resources": {"limits": {"cpu": "1", GPU: "1"}}}],
                "initContainers": [{"name": "i", "resources": {"limits": {"x.com/nic": "1"}}}],
            },
            "status": {"phase": "Pending"},
        }
    )
    assert found == Pod(
        key="team/b",
        uid="u1",
        node="gpu-a",
        phase="Pending",
        ending=True,
        admitted=False,
        owner="StatefulSet",
        resources=frozenset({GPU, "x.com/nic"}),
        selector=frozenset({"a"}),
    )


def test_evicted_pods_are_remembered_on_the_node() -> None:
    """A restarted controller knows them."""
    assert eviction.noted({names.EVICTED_ANNOTATION: '{"default/b": "u1"}'}) == {"default/b": "u1"}
    assert eviction.noted({names.EVICTED_ANNOTATION: "nonsense"}) == {}


@pytest.mark.parametrize(
    "key",
    [
        "..//x",
        "ml/../../../nodes",
        "ml/train?x=",
        "ml/train#",
        "ml/train/eviction",
        "ml/",
        "ml/" + "x" * 70_000,
        "ml/train\n",
    ],
)
async def test_what_no_pod_can_be_called_leads_to_no_place_of_the_api_server(key: str) -> None:
    """Blockers and holders are named by nodes: one that is no name is no pod, and nobody asks."""
    async with kube.connect("http://127.0.0.1:1", "") as unreached:
        assert await evicting.read(unreached, key) is None


def test_a_pod_stands_below_its_namespace() -> None:
    """Dots and dashes are of names."""
    assert kube.pod_path("ml", "a.b-0") == "/api/v1/namespaces/ml/pods/a.b-0"
