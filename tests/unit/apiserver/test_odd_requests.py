"""Requests that a real API server refuses, and how: code, reason and cause of each.

Each is something that a client of ours could send by mistake. The codes follow what a real
kube-apiserver was seen to answer to such requests; the exact causes follow its documentation and
have not been recorded from one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from shared.simulation.kube.apiserver import ApiServer, kinds, patches, pods
from tests.suites.kube_cluster import Cluster, node, pod

NS = "/api/v1/namespaces/suite"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/suite/leases"
NODE = "/api/v1/nodes/n"
GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class Odd:
    """One request and what must come of it; cause is (reason, field) of the first cause."""

    id: str
    method: str
    path: str
    code: int
    reason: str
    body: Any = None
    cause: tuple[str, str | None] | None = None
    content_type: str = "application/json"
    accept: str = "application/json"


def merge(name: str, path: str, body: Any, code: int, reason: str, **how: Any) -> Odd:
    """A merge patch."""
    return Odd(name, "PATCH", path, code, reason, body, content_type=patches.MERGE, **how)


def event(about: str | None) -> dict[str, Any]:
    """An Event in the suite's namespace about something in another one, or in none."""
    where = {"namespace": about} if about else {}
    return {"metadata": {"name": "e"}, "involvedObject": {"name": "x", **where}, "reason": "r"}


def gpu_pod(requested: str, limit: str | None) -> dict[str, Any]:
    """A pod that asks for an extended resource."""
    resources = {"requests": {GPU: requested}, "limits": {GPU: limit} if limit else {}}
    return {
        **pod("x"),
        "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
    }


INVALID, REQUIRED = "FieldValueInvalid", "FieldValueRequired"
CONTAINER = "spec.containers[0]"
ODD = [
    # bodies that are not what they should be
    Odd("create-other-kind", "POST", "/api/v1/nodes", 400, "BadRequest", {"kind": "Pod"}),
    Odd("create-no-json", "POST", "/api/v1/nodes", 400, "BadRequest", "{nope"),
    Odd("create-a-list", "POST", "/api/v1/nodes", 400, "BadRequest", []),
    Odd("create-text", "POST", "/api/v1/nodes", 415, "UnsupportedMediaType", node("t"),
        content_type="text/plain"),
    Odd("create-protobuf", "POST", "/api/v1/nodes", 415, "UnsupportedMediaType", "k8s\0",
        content_type="application/vnd.kubernetes.protobuf"),
    Odd("create-too-large", "POST", f"{NS}/configmaps", 413, "RequestEntityTooLarge",
        "x" * 3_200_000),
    Odd("create-nameless", "POST", "/api/v1/nodes", 422, "Invalid", {"metadata": {}},
        cause=(REQUIRED, "metadata.name")),
    Odd("create-with-version", "POST", "/api/v1/nodes", 500, "InternalError",
        {"metadata": {"name": "v", "resourceVersion": "5"}}),
    Odd("create-in-other-namespace", "POST", f"{NS}/pods", 400, "BadRequest",
        {**pod("x"), "metadata": {"name": "x", "namespace": "other"}}),
    Odd("label-is-a-number", "POST", "/api/v1/nodes", 400, "BadRequest",
        {"metadata": {"name": "l", "labels": {"a": 1}}}),
    # patches
    Odd("patch-as-text", "PATCH", NODE, 415, "UnsupportedMediaType", {}, content_type="text/plain"),
    Odd("patch-as-json", "PATCH", NODE, 415, "UnsupportedMediaType", {}),
    Odd("apply", "PATCH", NODE, 415, "UnsupportedMediaType", {},
        content_type="application/apply-patch+yaml"),
    merge("patch-missing", "/api/v1/nodes/none", {}, 404, "NotFound"),
    merge("patch-other-name", NODE, {"metadata": {"name": "o"}}, 400, "BadRequest"),
    merge("patch-uid", NODE, {"metadata": {"uid": "z"}}, 422, "Invalid",
          cause=(INVALID, "metadata.uid")),
    merge("patch-stale", NODE, {"metadata": {"resourceVersion": "1"}}, 409, "Conflict"),
    merge("patch-label-number", NODE, {"metadata": {"labels": {"a": 1}}}, 422, "Invalid",
          cause=(INVALID, "patch")),
    merge("patch-label-bad", NODE, {"metadata": {"labels": {"a": "no !"}}}, 422, "Invalid",
          cause=(INVALID, "metadata.labels")),
    merge("patch-label-key-bad", NODE, {"metadata": {"labels": {"a b": "x"}}}, 422, "Invalid",
          cause=(INVALID, "metadata.labels")),
    merge("patch-label-prefix-bad", NODE, {"metadata": {"labels": {"-/b": "x"}}}, 422, "Invalid",
          cause=(INVALID, "metadata.labels")),
    merge("patch-annotations-300k", NODE, {"metadata": {"annotations": {"a": "x" * 300_000}}},
          422, "Invalid", cause=("FieldValueTooLong", "metadata.annotations")),
    Odd("strategic-without-key", "PATCH", f"{NODE}/status", 400, "BadRequest",
        {"status": {"conditions": [{"status": "True"}]}}, content_type=patches.STRATEGIC),
    Odd("json-patch-test", "PATCH", NODE, 422, "Invalid",
        [{"op": "test", "path": "/metadata/name", "value": "q"}], content_type=patches.JSON_PATCH),
    Odd("json-patch-map", "PATCH", NODE, 400, "BadRequest", {}, content_type=patches.JSON_PATCH),
    # PUT
    Odd("put-missing-node", "PUT", "/api/v1/nodes/none", 404, "NotFound", node("none")),
    Odd("put-missing-map", "PUT", f"{NS}/configmaps/none", 404, "NotFound",
        {"metadata": {"name": "none"}}),
    Odd("put-other-name", "PUT", NODE, 400, "BadRequest", node("zz")),
    Odd("put-other-uid", "PUT", NODE, 409, "Conflict", {"metadata": {"name": "n", "uid": "z"}}),
    # kinds
    merge("pod-node-by-patch", f"{NS}/pods/p", {"spec": {"nodeName": "m"}}, 422, "Invalid",
          cause=("FieldValueForbidden", "spec")),
    merge("pod-restart-policy", f"{NS}/pods/p", {"spec": {"restartPolicy": "Never"}}, 422,
          "Invalid", cause=("FieldValueForbidden", "spec")),
    Odd("pod-without-containers", "POST", f"{NS}/pods", 422, "Invalid",
        {"metadata": {"name": "x"}, "spec": {}}, (REQUIRED, "spec.containers")),
    Odd("pod-without-image", "POST", f"{NS}/pods", 422, "Invalid",
        {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c"}]}},
        (REQUIRED, f"{CONTAINER}.image")),
    Odd("pod-restart-policy-unknown", "POST", f"{NS}/pods", 422, "Invalid",
        {**pod("x"), "spec": {**pod("x")["spec"], "restartPolicy": "Sometimes"}},
        ("FieldValueNotSupported", "spec.restartPolicy")),
    Odd("gpu-request-not-limit", "POST", f"{NS}/pods", 422, "Invalid", gpu_pod("1", "2"),
        (INVALID, f"{CONTAINER}.resources.requests")),
    Odd("gpu-without-limit", "POST", f"{NS}/pods", 422, "Invalid", gpu_pod("1", None),
        (REQUIRED, f"{CONTAINER}.resources.limits")),
    merge("data-key-bad", f"{NS}/configmaps/c", {"data": {"a b": "1"}}, 422, "Invalid",
          cause=(INVALID, "data[a b]")),
    merge("data-number", f"{NS}/configmaps/c", {"data": {"a": 1}}, 422, "Invalid",
          cause=(INVALID, "patch")),
    merge("data-1.2M", f"{NS}/configmaps/c", {"data": {"a": "x" * 1_200_000}}, 422, "Invalid",
          cause=("FieldValueTooLong", None)),
    Odd("lease-no-time", "POST", LEASES, 400, "BadRequest",
        {"metadata": {"name": "l"}, "spec": {"renewTime": "yesterday"}}),
    Odd("lease-time-without-micros", "POST", LEASES, 400, "BadRequest",
        {"metadata": {"name": "l"}, "spec": {"renewTime": "2026-01-01T00:00:00Z"}}),
    Odd("lease-no-duration", "POST", LEASES, 422, "Invalid",
        {"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 0}},
        (INVALID, "spec.leaseDurationSeconds")),
    Odd("event-about-node-elsewhere", "POST", f"{NS}/events", 422, "Invalid", event(None),
        (INVALID, "involvedObject.namespace")),
    Odd("event-about-other-namespace", "POST", f"{NS}/events", 422, "Invalid", event("other"),
        (INVALID, "involvedObject.namespace")),
    Odd("event-v1-without-controller", "POST", "/apis/events.k8s.io/v1/namespaces/suite/events",
        422, "Invalid", {"metadata": {"name": "e"}, "regarding": {"namespace": "suite"}},
        (REQUIRED, "eventTime")),
    Odd("budget-with-both", "POST", "/apis/policy/v1/namespaces/suite/poddisruptionbudgets", 422,
        "Invalid", {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}},
        (INVALID, "spec")),
    Odd("bind-missing-pod", "POST", f"{NS}/pods/none/binding", 404, "NotFound",
        {"target": {"name": "n"}}),
    Odd("bind-bound-pod", "POST", f"{NS}/pods/p/binding", 409, "Conflict",
        {"target": {"name": "m"}}),
    Odd("bind-to-nothing", "POST", f"{NS}/pods/p/binding", 400, "BadRequest", {}),
    Odd("evict-missing-pod", "POST", f"{NS}/pods/none/eviction", 404, "NotFound", {}),
    Odd("evict-other-name", "POST", f"{NS}/pods/p/eviction", 400, "BadRequest",
        {"metadata": {"name": "q"}}),
    Odd("delete-bad-grace", "DELETE", f"{NS}/pods/p?gracePeriodSeconds=x", 400, "BadRequest"),
    # reading
    Odd("no-such-token", "GET", "/api/v1/nodes?limit=1&continue=zz", 400, "BadRequest"),
    Odd("list-of-the-future", "GET", "/api/v1/nodes?resourceVersion=99999999", 504, "Timeout",
        cause=("ResourceVersionTooLarge", None)),
    Odd("no-such-field", "GET", "/api/v1/nodes?fieldSelector=status.foo%3D1", 400, "BadRequest"),
    Odd("no-label-selector", "GET", "/api/v1/nodes?labelSelector=a%3D%3D%3Db", 400, "BadRequest"),
    Odd("limit-is-text", "GET", "/api/v1/nodes?limit=abc", 400, "BadRequest"),
    Odd("initial-events-unmatched", "GET", "/api/v1/nodes?watch=1&sendInitialEvents=true", 422,
        "Invalid", cause=("FieldValueForbidden", "resourceVersionMatch")),
    Odd("accept-html", "GET", "/api/v1/nodes", 406, "NotAcceptable", accept="text/html"),
    Odd("no-such-resource", "GET", "/api/v1/foos", 404, "NotFound"),
    Odd("no-such-group", "GET", "/apis/foo.test/v1", 404, "NotFound"),
    Odd("no-such-path", "GET", "/foo", 404, "NotFound"),
    Odd("no-such-part", "GET", f"{NS}/pods/p/foo", 404, "NotFound"),
    Odd("put-a-collection", "PUT", "/api/v1/nodes", 405, "MethodNotAllowed", {}),
    Odd("post-to-an-object", "POST", NODE, 405, "MethodNotAllowed", {}),
    Odd("get-a-binding", "GET", f"{NS}/pods/p/binding", 405, "MethodNotAllowed"),
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd.id)
async def test_odd_request(odd: Odd, server: ApiServer, cluster: Cluster) -> None:
    """Each odd request is refused with the code, reason and cause of a real server."""
    server.objects.create(kinds.NODE, "", node("n"))
    server.objects.create(kinds.CONFIG_MAP, "suite", {"metadata": {"name": "c"}})
    server.objects.create(kinds.POD, "suite", pod("p"))
    pods.bind(server.objects, "suite", "p", "n", 0)
    response = await cluster.request(
        odd.method, odd.path, odd.body, content_type=odd.content_type, accept=odd.accept
    )
    status = await response.json()
    assert (response.status, status["kind"], status["reason"]) == (odd.code, "Status", odd.reason)
    assert status["code"] == odd.code
    if odd.cause:
        (cause, *_) = status["details"]["causes"]
        assert (cause["reason"], cause.get("field")) == odd.cause


async def test_list_of_the_future_says_when_to_retry(cluster: Cluster) -> None:
    """A server behind an asked resourceVersion asks for a second's patience."""
    response = await cluster.request("GET", "/api/v1/nodes?resourceVersion=99999999")
    assert response.headers["Retry-After"] == "1"


async def test_put_creates_a_missing_lease(cluster: Cluster) -> None:
    """A lease is the one kind that a PUT may create."""
    response = await cluster.request("PUT", f"{LEASES}/l", {"metadata": {"name": "l"}, "spec": {}})
    assert response.status == 201


async def test_list_of_a_missing_namespace_is_empty(cluster: Cluster) -> None:
    """A namespace that is not there has no pods; that is no error."""
    assert (await cluster.read("/api/v1/namespaces/nope/pods"))["items"] == []


async def test_body_of_two_megabytes_is_judged_by_the_rules(cluster: Cluster) -> None:
    """A body below 3 MiB reaches the rules, which say what is too large."""
    body = {"metadata": {"name": "big"}, "data": {"a": "x" * 2_000_000}}
    response = await cluster.request("POST", f"{NS}/configmaps", body)
    assert response.status == 422
