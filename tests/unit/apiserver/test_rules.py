"""What a write turns into: pure rules, seen without HTTP."""

from __future__ import annotations

import random

import pytest

from shared.simulation.kube.apiserver import kinds, pods
from shared.simulation.kube.apiserver.encoding import Json
from shared.simulation.kube.apiserver.objects import Objects
from shared.simulation.kube.apiserver.refusals import Refused
from shared.simulation.kube.apiserver.rules import Deletion
from shared.simulation.kube.apiserver.store import ChangeType, Store

SECOND = 1_000_000_000
POD: Json = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


class Clock:
    """A wall clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_800_000_000 * SECOND

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A clock under the test's control."""
    return Clock()


@pytest.fixture
def objects(clock: Clock) -> Objects:
    """Objects with one namespace, on that clock, with chance that repeats."""
    made = Objects(Store(window=100), clock, random.Random(1))
    made.create(kinds.NAMESPACE, "", {"metadata": {"name": "ns"}})
    return made


def bound(objects: Objects) -> None:
    """Create the pod and bind it to a node."""
    objects.create(kinds.POD, "ns", POD)
    pods.bind(objects, "ns", "p", "n", 0)


def metadata(objects: Objects) -> Json:
    """Return the pod's metadata."""
    found: Json = objects.read(kinds.POD, "ns", "p").data()["metadata"]
    return found


def test_write_without_change_keeps_the_version_and_sends_nothing(objects: Objects) -> None:
    """A no-op is not a write: same resourceVersion, no event, for any part."""
    bound(objects)
    version = objects.store.version
    for part in ("", "status"):
        objects.patch(kinds.POD, "ns", "p", lambda pod: {**pod, "metadata": {}}, part=part)
        objects.replace(kinds.POD, "ns", "p", objects.read(kinds.POD, "ns", "p").data(), part=part)
    assert objects.store.version == version
    assert objects.store.since(kinds.POD, version) == []


def test_status_and_the_rest_do_not_mix(objects: Objects) -> None:
    """Each part takes its own; labels pass through both."""
    objects.create(kinds.NODE, "", {"metadata": {"name": "n"}})
    wanted = {"spec": {"unschedulable": True}, "status": {"capacity": {"cpu": "1"}}}

    def change(label: str) -> Json:
        return {**wanted, "metadata": {"labels": {label: "x"}}}

    by_status = objects.patch(kinds.NODE, "", "n", lambda _: change("s"), part="status").data()
    assert (by_status["spec"], by_status["status"]["capacity"]) == ({}, {"cpu": "1"})
    assert by_status["metadata"]["labels"] == {"s": "x"}
    by_main = objects.patch(kinds.NODE, "", "n", lambda _: {"spec": {"taints": []}}).data()
    assert by_main["status"]["capacity"] == {"cpu": "1"}


def test_only_the_creation_of_a_node_keeps_its_status(objects: Objects) -> None:
    """A kubelet may create its node with a status; nobody may create a pod with one."""
    status = {"status": {"phase": "Running", "capacity": {"cpu": "1"}}}
    node = objects.create(kinds.NODE, "", {"metadata": {"name": "n"}, **status}).data()
    pod = objects.create(kinds.POD, "ns", {**POD, **status}).data()
    assert node["status"]["capacity"] == {"cpu": "1"}
    assert pod["status"] == {"phase": "Pending"}


def test_a_body_that_is_given_is_not_changed(objects: Objects) -> None:
    """A caller in the same process may use its body again."""
    body = {**POD, "metadata": {"generateName": "p-"}}
    names = {objects.create(kinds.POD, "ns", body).data()["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert body["metadata"] == {"generateName": "p-"}


def test_bound_pod_is_marked_with_now_plus_grace(objects: Objects, clock: Clock) -> None:
    """A deletion sets deletionTimestamp, grace and the next generation, and the pod stays."""
    bound(objects)
    before = metadata(objects)
    objects.delete(kinds.POD, "ns", "p", Deletion(grace_seconds=10))
    seen = metadata(objects)
    assert clock.now // SECOND == 1_800_000_000
    assert seen["deletionTimestamp"] == "2027-01-15T08:00:10Z"
    assert seen["deletionGracePeriodSeconds"] == 10
    assert seen["generation"] == before["generation"] + 1


@pytest.mark.parametrize(
    ("second", "ends", "grace"),
    [
        pytest.param(4, "2027-01-15T08:00:04Z", 4, id="shorter"),
        pytest.param(60, "2027-01-15T08:00:10Z", 10, id="longer"),
        pytest.param(None, "2027-01-15T08:00:10Z", 10, id="unsaid"),
    ],
)
def test_second_deletion_only_shortens(
    objects: Objects, clock: Clock, second: int | None, ends: str, grace: int
) -> None:
    """The end moves earlier, counted from the first deletion, and never later."""
    bound(objects)
    objects.delete(kinds.POD, "ns", "p", Deletion(grace_seconds=10))
    clock.now += 2 * SECOND
    objects.delete(kinds.POD, "ns", "p", Deletion(grace_seconds=second))
    seen = metadata(objects)
    assert (seen["deletionTimestamp"], seen["deletionGracePeriodSeconds"]) == (ends, grace)


def test_finished_and_unbound_pods_go_at_once(objects: Objects) -> None:
    """Grace is for pods that run somewhere."""
    objects.create(kinds.POD, "ns", POD)
    objects.delete(kinds.POD, "ns", "p", Deletion(grace_seconds=10))
    bound(objects)
    objects.patch(
        kinds.POD, "ns", "p", lambda pod: {**pod, "status": {"phase": "Failed"}}, part="status"
    )
    objects.delete(kinds.POD, "ns", "p", Deletion(grace_seconds=10))
    assert objects.store.list("pods") == []


def test_pod_with_finalizer_outlives_its_grace(objects: Objects) -> None:
    """With grace 0 the finalizer still holds; taking it off is the end."""
    bound(objects)

    def held(pod: Json) -> Json:
        return {**pod, "metadata": {**pod["metadata"], "finalizers": ["x.test/f"]}}

    def freed(pod: Json) -> Json:
        return {**pod, "metadata": {**pod["metadata"], "finalizers": []}}

    objects.patch(kinds.POD, "ns", "p", held)
    objects.delete(kinds.POD, "ns", "p", Deletion(grace_seconds=0))
    assert metadata(objects)["deletionGracePeriodSeconds"] == 0
    objects.patch(kinds.POD, "ns", "p", freed)
    assert objects.store.get("pods", "ns", "p") is None


def test_deleted_namespace_takes_its_objects_along(objects: Objects) -> None:
    """Nothing is left behind, and each object's end is an event."""
    bound(objects)
    version = objects.store.version
    objects.delete(kinds.NAMESPACE, "", "ns")
    assert objects.store.list("pods") == []
    ends = objects.store.since(kinds.POD, version)
    assert [change.type for change in ends] == [ChangeType.DELETED]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"nodeName": "other"}, id="node"),
        pytest.param({"restartPolicy": "Never"}, id="restart-policy"),
        pytest.param({"containers": [{"name": "d", "image": "i"}]}, id="container"),
    ],
)
def test_spec_of_a_pod_is_fixed(objects: Objects, change: Json) -> None:
    """What a pod is cannot be changed: 422 on spec."""
    bound(objects)
    with pytest.raises(Refused) as caught:
        objects.patch(kinds.POD, "ns", "p", lambda pod: {**pod, "spec": {**pod["spec"], **change}})
    assert caught.value.code == 422
    assert caught.value.details["causes"][0]["field"] == "spec"


def test_image_and_added_tolerations_of_a_pod_may_change(objects: Objects) -> None:
    """The few fields of a pod's spec that are open are open."""
    bound(objects)

    def change(pod: Json) -> Json:
        container = {**pod["spec"]["containers"][0], "image": "i:2"}
        spec = {**pod["spec"], "containers": [container], "tolerations": [{"operator": "Exists"}]}
        return {**pod, "spec": spec}

    changed = objects.patch(kinds.POD, "ns", "p", change).data()
    assert changed["spec"]["containers"][0]["image"] == "i:2"


def test_limits_become_requests(objects: Objects) -> None:
    """A limit without a request is the request too, as the scheduler expects."""
    resources = {"limits": {"nvidia.com/gpu": "1"}}
    body = {**POD, "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}}
    created = objects.create(kinds.POD, "ns", body).data()
    assert created["spec"]["containers"][0]["resources"]["requests"] == {"nvidia.com/gpu": "1"}


def test_text_of_a_secret_becomes_data(objects: Objects) -> None:
    """stringData is written and never read: it is kept as base64 data."""
    body = {"metadata": {"name": "s"}, "stringData": {"user": "me"}}
    created = objects.create(kinds.SECRET, "ns", body).data()
    assert (created["type"], created["data"]) == ("Opaque", {"user": "bWU="})
    assert "stringData" not in created


def test_stale_precondition_keeps_an_object(objects: Objects) -> None:
    """A deletion of a state that is no more is refused with 409."""
    bound(objects)
    with pytest.raises(Refused) as caught:
        objects.delete(kinds.POD, "ns", "p", Deletion(resource_version="1"))
    assert (caught.value.code, str(caught.value)[:3]) == (409, "409")
