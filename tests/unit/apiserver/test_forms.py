"""The forms of an answer, and what clients find their way by."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shared.simulation.kube.apiserver import ApiServer, discovery, forms, kinds, pods
from shared.simulation.kube.apiserver.encoding import Json
from shared.simulation.kube.apiserver.forms import Form
from shared.simulation.kube.apiserver.refusals import Refused
from tests.suites.kube_api import TABLE
from tests.suites.kube_cluster import Cluster, node, pod

BORN = 1_800_000_000
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


class Clock:
    """A wall clock that stands still until it is moved."""

    now = BORN * 1_000_000_000

    def __call__(self) -> int:
        return self.now


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form.OBJECT),
        ("*/*", Form.OBJECT),
        ("application/json", Form.OBJECT),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Form.TABLE),
        ("application/json; as=PartialObjectMetadataList; v=v1", Form.METADATA),
        ("application/vnd.kubernetes.protobuf,application/json", Form.OBJECT),
        ("application/json;as=APIGroupDiscoveryList;v=v2,application/json", Form.OBJECT),
    ],
)
def test_first_form_that_can_be_written(accept: str, form: Form) -> None:
    """Clients name forms in their order of liking; the first one known here is taken."""
    assert forms.negotiate(accept) is form


@pytest.mark.parametrize("accept", ["text/html", "application/yaml"])
def test_no_form_that_can_be_written(accept: str) -> None:
    """Nothing acceptable is 406."""
    with pytest.raises(Refused) as caught:
        forms.negotiate(accept)
    assert caught.value.code == 406


@pytest.fixture
async def aged() -> AsyncIterator[tuple[Cluster, ApiServer, Clock]]:
    """A server on a clock of the test."""
    clock = Clock()
    server = ApiServer(now_ns=clock)
    await server.start()

    async def unused() -> None:
        raise AssertionError("not in this test")

    async with Cluster(server.address, unused, unused) as cluster:
        yield cluster, server, clock
    await server.stop()


async def _rows(cluster: Cluster, path: str) -> list[list[object]]:
    table = await cluster.read(path, accept=TABLE)
    return [row["cells"] for row in table["rows"]]


@pytest.mark.parametrize(
    ("seconds", "age"), [(0, "0s"), (119, "119s"), (120, "2m"), (7200, "2h"), (200_000, "2d")]
)
async def test_row_of_a_node(
    aged: tuple[Cluster, ApiServer, Clock], seconds: int, age: str
) -> None:
    """A node's row says status, roles, version and age."""
    cluster, server, clock = aged
    status = {
        "nodeInfo": {"kubeletVersion": "v1"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    body = {**node("n", **{"node-role.kubernetes.io/gpu": ""}), "status": status}
    server.objects.create(kinds.NODE, "", {**body, "spec": {"unschedulable": True}})
    clock.now += seconds * 1_000_000_000
    rows = await _rows(cluster, "/api/v1/nodes")
    assert rows == [["n", "Ready,SchedulingDisabled", "gpu", "v1", age]]


async def test_row_of_a_pod(aged: tuple[Cluster, ApiServer, Clock]) -> None:
    """A pod's row follows its life: pending, running with restarts, terminating."""
    cluster, server, _ = aged
    path = "/api/v1/namespaces/suite/pods"
    server.objects.create(kinds.POD, "suite", pod("p"))
    assert await _rows(cluster, path) == [["p", "0/1", "Pending", "0", "0s"]]
    pods.bind(server.objects, "suite", "p", "n", 0)
    statuses = [{"ready": True, "restartCount": 2}]
    running: Json = {"status": {"phase": "Running", "containerStatuses": statuses}}
    server.objects.patch(kinds.POD, "suite", "p", lambda old: {**old, **running}, part="status")
    assert await _rows(cluster, path) == [["p", "1/1", "Running", "2", "0s"]]
    server.objects.delete(kinds.POD, "suite", "p")
    assert await _rows(cluster, path) == [["p", "1/1", "Terminating", "2", "0s"]]


@pytest.mark.parametrize("kind", kinds.SERVED, ids=lambda kind: kind.qualified)
async def test_every_kind_has_a_table(kind: kinds.Kind, cluster: Cluster) -> None:
    """kubectl can list each kind, empty as it is."""
    root = "apis" if kind.group else "api"
    table = await cluster.read(f"/{root}/{kind.group_version}/{kind.plural}", accept=TABLE)
    names = [column["name"] for column in table["columnDefinitions"]]
    assert (names[0], names[-1]) == ("Name", "Age")


async def test_event_is_one_object_under_two_names(cluster: Cluster, server: ApiServer) -> None:
    """What is written through v1 is listed and watched through events.k8s.io, fields renamed."""
    body = {"metadata": {"name": "e"}, "involvedObject": {"name": "n"}, "message": "m"}
    server.objects.create(kinds.EVENT, "default", body)
    listed = await cluster.read(f"{EVENTS}?fieldSelector=regarding.name%3Dn")
    (event,) = await cluster.watch(EVENTS, {})
    assert listed["kind"] == "EventList"
    for seen in (listed["items"][0], event["object"]):
        assert (seen["regarding"], seen["note"]) == ({"name": "n"}, "m")
        assert seen["apiVersion"] == "events.k8s.io/v1"


async def test_deletion_of_a_collection(cluster: Cluster, server: ApiServer) -> None:
    """Only what is selected goes, and the answer lists it."""
    for name in ("a", "b"):
        labels = {"labels": {"which": name}}
        server.objects.create(kinds.CONFIG_MAP, "suite", {"metadata": {"name": name, **labels}})
    path = "/api/v1/namespaces/suite/configmaps"
    response = await cluster.request("DELETE", path, query=[("labelSelector", "which=a")])
    assert [item["metadata"]["name"] for item in (await response.json())["items"]] == ["a"]
    assert [each["metadata"]["name"] for each in server.store.list("configmaps")] == ["b"]


async def test_reviews() -> None:
    """A known token has a user, for its own audience only; everybody may do everything."""
    user = {"username": "system:serviceaccount:ns:sa"}
    server = ApiServer(tokens={"good": {"user": user, "audiences": ["bus"]}})
    await server.start()

    async def unused() -> None:
        raise AssertionError("not in this test")

    async with Cluster(server.address, unused, unused) as cluster:
        path = "/apis/authentication.k8s.io/v1/tokenreviews"
        spec = {"token": "good", "audiences": ["bus", "other"]}
        status = (await (await cluster.request("POST", path, {"spec": spec})).json())["status"]
        astray = await cluster.request("POST", path, {"spec": {"token": "good"}})
        assert "authenticated" not in (await astray.json())["status"]
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        allowed = await cluster.request("POST", path, {"spec": {}})
        assert (await allowed.json())["status"] == {"allowed": True}
    assert status == {"authenticated": True, "user": user, "audiences": ["bus"]}
    await server.stop()


@pytest.mark.parametrize("kind", kinds.SERVED, ids=lambda kind: kind.qualified)
def test_every_kind_is_discovered(kind: kinds.Kind) -> None:
    """Discovery and the OpenAPI stub name each kind that is served."""
    root = f"/apis/{kind.group_version}" if kind.group else f"/api/{kind.group_version}"
    resources = discovery.document(root)
    openapi = discovery.document(f"/openapi/v3{root}")
    assert resources is not None
    assert openapi is not None
    assert kind.plural in [each["name"] for each in resources["resources"]]
    assert any(path.endswith(f"/{kind.plural}/{{name}}") for path in openapi["paths"])
