"""Evictions under disruption budgets, with a disruption controller that may be late."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shared.simulation.kube.apiserver import ApiServer, budgets, kinds, pods
from shared.simulation.kube.apiserver.encoding import Json
from shared.simulation.kube.apiserver.refusals import Refused
from shared.simulation.kube.apiserver.rules import Deletion
from tests.suites.kube_cluster import pod
from tests.support.eventually import eventually

READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
UNREADY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}


def run(server: ApiServer, name: str, status: Json | None = None) -> None:
    """Create a pod of the app, bind it and give it a status."""
    server.objects.create(kinds.POD, "default", pod(name, app="web"))
    pods.bind(server.objects, "default", name, "n", 0)
    wanted = {"status": READY if status is None else status}
    server.objects.patch(kinds.POD, "default", name, lambda old: {**old, **wanted}, part="status")


def keep(server: ApiServer, **spec: object) -> None:
    """Create a budget for the app."""
    selector = {"matchLabels": {"app": "web"}}
    body = {"metadata": {"name": "b"}, "spec": {"selector": selector, **spec}}
    server.objects.create(kinds.BUDGET, "default", body)


def evict(server: ApiServer, name: str) -> int:
    """Return the code with which an eviction is answered."""
    try:
        pods.evict(server.objects, "default", name, Deletion(), 0)
    except Refused as refused:
        return refused.code
    return 201


@pytest.fixture
async def late_server() -> AsyncIterator[ApiServer]:
    """A server whose disruption controller takes its time."""
    server = ApiServer(pdb_delay=0.05)
    await server.start()
    yield server
    await server.stop()


def test_budget_is_spent_pod_by_pod() -> None:
    """Two ready pods, one needed: the first may go, the second may not."""
    server = ApiServer()
    run(server, "a")
    run(server, "b")
    keep(server, minAvailable=1)
    assert [evict(server, name) for name in ("a", "b")] == [201, 429]


def test_an_evicted_pod_says_so_until_it_is_gone() -> None:
    """Its condition tells an eviction from a deletion, also where the eviction named a version."""
    server = ApiServer()
    run(server, "a")
    version = server.objects.read(kinds.POD, "default", "a").version
    pods.evict(server.objects, "default", "a", Deletion(resource_version=str(version)), 0)
    left = server.objects.read(kinds.POD, "default", "a").data()
    (ready, disrupted) = left["status"]["conditions"]
    assert ready["type"] == "Ready"
    assert pods.EVICTED.items() <= disrupted.items()
    assert "deletionTimestamp" in left["metadata"]


def test_a_refused_eviction_leaves_no_mark() -> None:
    """Nor does one that is only tried."""
    server = ApiServer()
    run(server, "a")
    pods.evict(server.objects, "default", "a", Deletion(), 0, dry_run=True)
    keep(server, minAvailable=1)
    assert evict(server, "a") == 429
    assert server.objects.read(kinds.POD, "default", "a").data()["status"] == READY


def test_budget_frees_again_when_another_pod_is_ready() -> None:
    """The status follows the pods."""
    server = ApiServer()
    run(server, "a")
    keep(server, minAvailable=1)
    assert evict(server, "a") == 429
    run(server, "b")
    assert evict(server, "a") == 201


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_pods_that_do_not_run_are_past_budgets(phase: str) -> None:
    """A budget protects what runs; the rest is evicted in spite of it."""
    server = ApiServer()
    run(server, "a", {"phase": phase})
    keep(server, minAvailable=1)
    assert evict(server, "a") == 201


@pytest.mark.parametrize(
    ("policy", "others", "code"),
    [("IfHealthyBudget", 0, 429), ("IfHealthyBudget", 1, 201), ("AlwaysAllow", 0, 201)],
)
def test_unready_pods(policy: str, others: int, code: int) -> None:
    """A pod that is not ready may go if the others suffice, or if the budget says always."""
    server = ApiServer()
    run(server, "a", UNREADY)
    for index in range(others):
        run(server, f"other-{index}")
    keep(server, minAvailable=1, unhealthyPodEvictionPolicy=policy)
    assert evict(server, "a") == code


def test_two_budgets_for_a_pod_are_an_error() -> None:
    """The eviction API does not choose between budgets: 500."""
    server = ApiServer()
    run(server, "a")
    keep(server, minAvailable=0)
    body = {"metadata": {"name": "c"}, "spec": {"minAvailable": 0, "selector": {}}}
    server.objects.create(kinds.BUDGET, "default", body)
    assert evict(server, "a") == 500


async def test_new_budget_is_being_processed(late_server: ApiServer) -> None:
    """Until the controller has seen a budget every eviction under it is 429 with Retry-After."""
    run(late_server, "a")
    keep(late_server, minAvailable=0)
    with pytest.raises(Refused) as caught:
        pods.evict(late_server.objects, "default", "a", Deletion(), 0)
    assert (caught.value.code, caught.value.retry_after) == (429, 10)
    (cause,) = caught.value.details["causes"]
    assert cause["reason"] == "DisruptionBudget"
    assert "still being processed by the server" in cause["message"]
    await eventually(lambda: evict(late_server, "a") == 201)


async def test_allowance_is_spent_before_the_controller_notices(late_server: ApiServer) -> None:
    """Two evictions in a row cannot both use the one disruption that a stale status allows."""
    run(late_server, "a")
    run(late_server, "b")
    keep(late_server, minAvailable=1)

    def is_processed() -> bool:
        budget = late_server.store.get("poddisruptionbudgets", "default", "b")
        return budget is not None and budget.get("status", {}).get("disruptionsAllowed") == 1

    await eventually(is_processed)
    assert [evict(late_server, name) for name in ("a", "b")] == [201, 429]


@pytest.mark.parametrize(
    ("spec", "pods_count", "wanted"),
    [
        ({"minAvailable": 2}, 3, 2),
        ({"minAvailable": "50%"}, 3, 2),
        ({"maxUnavailable": 1}, 3, 2),
        ({"maxUnavailable": "50%"}, 3, 1),
        ({}, 3, 2),
        ({"minAvailable": 1}, 0, 1),
    ],
    ids=str,
)
def test_wanted_pods(spec: Json, pods_count: int, wanted: int) -> None:
    """Counts are taken as they are, percentages of the pods are rounded up."""
    budget = {"metadata": {"generation": 1}, "spec": spec}
    ready = {"metadata": {}, "status": READY}
    status = budgets.status_of(budget, [ready] * pods_count)
    assert status["desiredHealthy"] == wanted
    assert status["disruptionsAllowed"] == max(0, pods_count - wanted)
