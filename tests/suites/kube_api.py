"""What slicewire and its tests rely on in a Kubernetes API server: 53 behaviours.

Every check holds on a real kube-apiserver and is what the embedded one is held to. Real ones have
controllers that write too, so a check looks only at its own objects and never expects "exactly
the next event".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kubernetes_asyncio import client, watch

from tests.suites.kube_cluster import Cluster, Json, bind, bound_pod, evict, node, pod, refused
from tests.support.eventually import eventually

Check = Callable[[Cluster], Awaitable[None]]
CHECKS: list[Check] = []
NODES = "/api/v1/nodes"
MERGE = "application/merge-patch+json"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def check(function: Check) -> Check:
    """Add a check to the suite."""
    CHECKS.append(function)
    return function


def _name(event: Json) -> str:
    return str(event["object"]["metadata"]["name"])


def _of(name: str) -> Callable[[Json], bool]:
    return lambda event: event["type"] != "BOOKMARK" and _name(event) == name


def _labelled(name: str, **labels: str) -> Callable[[Json], bool]:
    """The event after which a node has these labels; controllers may have written before."""
    of_it = _of(name)
    return lambda event: (
        of_it(event) and labels.items() <= (event["object"]["metadata"].get("labels") or {}).items()
    )


def _is_bookmark(event: Json) -> bool:
    return bool(event["type"] == "BOOKMARK")


# ---------------------------------------------------------------------- objects


@check
async def namespace_create(cluster: Cluster) -> None:
    """A created namespace is active."""
    created = await cluster.core.create_namespace({"metadata": {"name": cluster.name("ns")}})
    assert created.status.phase == "Active"


@check
async def node_create_rv_uid(cluster: Cluster) -> None:
    """A created object has a numeric resourceVersion, a uid and a time of creation."""
    created = await cluster.core.create_node(node(cluster.name("rv")))
    assert created.metadata.resource_version.isdigit()
    assert created.metadata.uid
    assert created.metadata.creation_timestamp


@check
async def create_duplicate_409(cluster: Cluster) -> None:
    """A name that is taken is refused with AlreadyExists."""
    body = node(cluster.name("twice"))
    await cluster.core.create_node(body)
    status = await refused(cluster.core.create_node(body), 409)
    assert status["reason"] == "AlreadyExists"


@check
async def get_404_status(cluster: Cluster) -> None:
    """What does not exist is a Status with reason NotFound that names it."""
    name = cluster.name("none")
    status = await refused(cluster.core.read_node(name), 404)
    assert (status["kind"], status["reason"]) == ("Status", "NotFound")
    assert status["details"] == {"name": name, "kind": "nodes"}


@check
async def list_has_rv_kind(cluster: Cluster) -> None:
    """A list has a kind and a resourceVersion of its own."""
    listed = await cluster.core.list_node()
    assert listed.kind == "NodeList"
    assert listed.metadata.resource_version.isdigit()


@check
async def label_selector(cluster: Cluster) -> None:
    """Equality, set, absence and inequality of labels select together."""
    name = cluster.name("labelled")
    await cluster.core.create_node(node(name, chosen=name))
    for selector in (f"chosen={name}", f"chosen in ({name},zz),!absent,chosen!=q"):
        listed = await cluster.core.list_node(label_selector=selector)
        assert [each.metadata.name for each in listed.items] == [name]


@check
async def field_selectors(cluster: Cluster) -> None:
    """Nodes are selected by name, pods by node and phase."""
    name = cluster.name("field")
    await cluster.core.create_node(node(name))
    nodes = await cluster.core.list_node(field_selector=f"metadata.name={name}")
    assert [each.metadata.name for each in nodes.items] == [name]
    await cluster.core.create_namespaced_pod(cluster.run, pod("field"))
    for selector, found in (
        ("spec.nodeName=,status.phase=Pending", True),
        ("status.phase!=Pending", False),
    ):
        pods = await cluster.core.list_pod_for_all_namespaces(field_selector=selector)
        assert ("field" in [each.metadata.name for each in pods.items]) is found


@check
async def list_limit_continue(cluster: Cluster) -> None:
    """Pages follow each other in order until there is no token."""
    for index in range(7):
        body = {"metadata": {"name": f"page-{index}", "labels": {"paged": "yes"}}}
        await cluster.core.create_namespaced_config_map(cluster.run, body)
    pages: list[list[str]] = []
    more: dict[str, str] = {}
    while len(pages) < 9:
        listed = await cluster.core.list_namespaced_config_map(
            cluster.run, label_selector="paged=yes", limit=3, **more
        )
        pages.append([each.metadata.name for each in listed.items])
        if not listed.metadata._continue:
            break
        more = {"_continue": listed.metadata._continue}
    assert [len(page) for page in pages] == [3, 3, 1]
    names = [name for page in pages for name in page]
    assert names == [f"page-{index}" for index in range(7)]


@check
async def invalid_name_422(cluster: Cluster) -> None:
    """A name that is no DNS subdomain is Invalid, and the cause says which field."""
    status = await refused(cluster.core.create_node(node("Not_Valid")), 422)
    assert status["reason"] == "Invalid"
    assert status["details"]["causes"][0]["field"] == "metadata.name"


@check
async def namespace_with_dots_422(cluster: Cluster) -> None:
    """A namespace is a label of DNS, unlike most objects."""
    call = cluster.core.create_namespace({"metadata": {"name": "a.b"}}, dry_run="All")
    status = await refused(call, 422)
    assert status["details"]["causes"][0]["field"] == "metadata.name"


@check
async def container_names_422(cluster: Cluster) -> None:
    """Containers have labels of DNS for names, each another, init containers too."""
    for containers, init, cause in (
        (["a.b"], [], ("FieldValueInvalid", "spec.containers[0].name")),
        (["A"], [], ("FieldValueInvalid", "spec.containers[0].name")),
        (["a", "a"], [], ("FieldValueDuplicate", "spec.containers[1].name")),
        (["a"], ["a"], ("FieldValueDuplicate", "spec.initContainers[0].name")),
    ):
        spec = {
            "containers": [{"name": name, "image": "i"} for name in containers],
            "initContainers": [{"name": name, "image": "i"} for name in init],
        }
        assert await _causes(cluster, spec) == {cause}, (containers, init)


@check
async def resources_422(cluster: Cluster) -> None:
    """Extended resources have a domain and come whole; others are the known ones."""
    for name, amount in (
        ("gpu", "1"),
        ("nvidia.com/gpu shared", "1"),
        ("nvidia.com/", "1"),
        ("nvidia.com/" + "g" * 64, "1"),
        ("requests.nvidia.com/gpu", "1"),
        ("nvidia.com/gpu", "1.5"),
        ("nvidia.com/gpu", "1500m"),
        ("nvidia.com/gpu", "-1"),
        ("cpu", "-1"),
    ):
        at = f"spec.containers[0].resources.limits[{name}]"
        found = await _causes(cluster, _asking(name, amount))
        assert ("FieldValueInvalid", at) in found, (name, amount)


@check
async def resources_accepted(cluster: Cluster) -> None:
    """Whole numbers in every form, and any domain."""
    for name, amount in (
        ("nvidia.com/gpu", "1k"),
        ("nvidia.com/gpu", "1e3"),
        ("nvidia.com/gpu", "2.0"),
        ("example.com/GPU_a.b-c", "0"),
        ("hugepages-2Mi", "0"),
        ("cpu", "1.5"),
        ("memory", "4Gi"),
    ):
        assert await _causes(cluster, _asking(name, amount)) == set(), (name, amount)


def _asking(resource: str, amount: str) -> Json:
    # a pod with huge pages has to ask for processors or memory besides
    limits = {"memory": "1Gi"} | {resource: amount}
    return {"containers": [{"name": "a", "image": "i", "resources": {"limits": limits}}]}


async def _causes(cluster: Cluster, spec: Json) -> set[tuple[str, str]]:
    """Why a pod with that spec is refused; nothing is created."""
    path = f"/api/v1/namespaces/{cluster.run}/pods?dryRun=All"
    answer = await cluster.request("POST", path, {"metadata": {"name": "p"}, "spec": spec})
    status = await answer.json()
    if answer.status == 201:
        return set()
    assert answer.status == 422, status
    return {(cause["reason"], cause["field"]) for cause in status["details"]["causes"]}


@check
async def unknown_namespace_404(cluster: Cluster) -> None:
    """Nothing is created in a namespace that does not exist."""
    call = cluster.core.create_namespaced_config_map(
        cluster.name("nowhere"), {"metadata": {"name": "c"}}
    )
    await refused(call, 404)


@check
async def dry_run(cluster: Cluster) -> None:
    """A dry run answers as if, and stores nothing."""
    name = cluster.name("dry")
    await cluster.core.create_node(node(name), dry_run="All")
    await refused(cluster.core.read_node(name), 404)


@check
async def finalizers(cluster: Cluster) -> None:
    """A finalizer keeps a deleted object until it is taken off."""
    body = {"metadata": {"name": "held", "finalizers": ["x.test/f"]}}
    await cluster.core.create_namespaced_config_map(cluster.run, body)
    await cluster.core.delete_namespaced_config_map("held", cluster.run)
    held = await cluster.core.read_namespaced_config_map("held", cluster.run)
    assert held.metadata.deletion_timestamp
    freed = {"metadata": {"finalizers": None}}
    await cluster.core.patch_namespaced_config_map("held", cluster.run, freed, _content_type=MERGE)
    await refused(cluster.core.read_namespaced_config_map("held", cluster.run), 404)


@check
async def delete_uid_precondition_409(cluster: Cluster) -> None:
    """A deletion meant for another object of that name is refused."""
    await cluster.core.create_namespaced_config_map(cluster.run, {"metadata": {"name": "other"}})
    options = {"preconditions": {"uid": "nope"}}
    call = cluster.core.delete_namespaced_config_map("other", cluster.run, body=options)
    await refused(call, 409)


# ---------------------------------------------------------------------- watches


@check
async def watch_from_rv_modified(cluster: Cluster) -> None:
    """A watch from a list's resourceVersion shows the next change as MODIFIED, with its kind."""
    name = cluster.name("changing")
    await cluster.core.create_node(node(name))
    since = (await cluster.core.list_node()).metadata.resource_version
    patch = {"metadata": {"labels": {"x": "1", "a": None}}}
    await cluster.core.patch_node(name, patch, _content_type=MERGE)
    events = await cluster.watch(NODES, {"resourceVersion": since}, until=_labelled(name, x="1"))
    assert events[-1]["type"] == "MODIFIED"
    seen = events[-1]["object"]
    assert (seen["kind"], seen["apiVersion"]) == ("Node", "v1")
    assert seen["metadata"]["labels"] == {"x": "1"}


@check
async def watch_replay_from_older_rv(cluster: Cluster) -> None:
    """A watch from an older resourceVersion replays what came since, in order."""
    since = (await cluster.core.list_node()).metadata.resource_version
    names = [cluster.name(f"replay-{index}") for index in range(3)]
    for name in names:
        await cluster.core.create_node(node(name))
    events = await cluster.watch(NODES, {"resourceVersion": since}, until=_of(names[-1]))
    added = [_name(event) for event in events if event["type"] == "ADDED"]
    assert [name for name in added if name in names] == names


@check
async def watch_typed_client(cluster: Cluster) -> None:
    """The Python client's own Watch yields typed objects."""
    name = cluster.name("typed")
    since = (await cluster.core.list_node()).metadata.resource_version
    await cluster.core.create_node(node(name))
    async with watch.Watch() as watching:
        stream = watching.stream(
            cluster.core.list_node,
            resource_version=since,
            field_selector=f"metadata.name={name}",
            timeout_seconds=3,
        )
        async for event in stream:
            assert isinstance(event["object"], client.V1Node)
            assert event["object"].metadata.name == name
            return
    raise AssertionError("the watch ended without the node")


@check
async def watch_selector_enter_leave(cluster: Cluster) -> None:
    """With a selector, what begins to match is ADDED and what ceases to is DELETED."""
    name = cluster.name("moving")
    await cluster.core.create_node(node(name, group="before"))
    since = (await cluster.core.list_node()).metadata.resource_version
    for group in (name, "after"):
        await cluster.core.patch_node(name, {"metadata": {"labels": {"group": group}}})
    query = {"resourceVersion": since, "labelSelector": f"group={name}"}
    events = await cluster.watch(NODES, query, until=lambda event: event["type"] == "DELETED")
    assert [event["type"] for event in events] == ["ADDED", "DELETED"]


@check
async def watch_pods_until_they_run(cluster: Cluster) -> None:
    """A field selector of what a phase is not: a pod that is new is ADDED, once it runs DELETED."""
    path = f"/api/v1/namespaces/{cluster.run}/pods"
    since = (await cluster.core.list_namespaced_pod(cluster.run)).metadata.resource_version
    await cluster.core.create_namespaced_pod(cluster.run, pod("starting"))
    running = {"status": {"phase": "Running"}}
    await cluster.core.patch_namespaced_pod_status("starting", cluster.run, running)
    query = {
        "resourceVersion": since,
        "fieldSelector": "status.phase!=Running,status.phase!=Succeeded",
    }
    events = await cluster.watch(path, query, until=lambda event: event["type"] == "DELETED")
    assert [(event["type"], _name(event)) for event in events] == [
        ("ADDED", "starting"),
        ("DELETED", "starting"),
    ]


@check
async def watch_deleted_has_new_rv(cluster: Cluster) -> None:
    """A DELETED event carries a resourceVersion newer than the object ever had."""
    name = cluster.name("deleted")
    created = await cluster.core.create_node(node(name))
    await cluster.core.delete_node(name)
    since = created.metadata.resource_version
    events = await cluster.watch(
        NODES, {"resourceVersion": since, "fieldSelector": f"metadata.name={name}"},
        until=lambda event: event["type"] == "DELETED",
    )  # fmt: skip
    assert int(events[-1]["object"]["metadata"]["resourceVersion"]) > int(since)


@check
async def watch_timeout_seconds(cluster: Cluster) -> None:
    """The server itself ends a watch after timeoutSeconds."""
    since = (await cluster.core.list_node()).metadata.resource_version
    query = {"resourceVersion": since, "timeoutSeconds": "1"}
    await cluster.watch(NODES, query, until=lambda _: False, within=4)


@check
async def watch_bookmark(cluster: Cluster) -> None:
    """A bookmark tells how far a watch has come: each minute, and 2 s before its time is over.

    At least on a real server; the embedded one sends them more often.
    """
    since = (await cluster.core.list_node()).metadata.resource_version
    query = {"resourceVersion": since, "allowWatchBookmarks": "true", "timeoutSeconds": "10"}
    events = await cluster.watch(NODES, query, until=_is_bookmark, within=90)
    mark = events[-1]["object"]
    assert mark["kind"] == "Node"
    assert int(mark["metadata"]["resourceVersion"]) >= int(since)


@check
async def watch_410(cluster: Cluster) -> None:
    """A watch from before what is remembered is one ERROR event with code 410, Expired."""
    await cluster.core.create_node(node(cluster.name("forgotten")))
    await cluster.compact()
    events = await cluster.watch(NODES, {"resourceVersion": "1"})
    assert events[0]["type"] == "ERROR"
    status = events[0]["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")


@check
async def watch_sendinitialevents(cluster: Cluster) -> None:
    """A watch that begins with the state marks the end of the state by an annotated bookmark."""
    name = cluster.name("initial")
    await cluster.core.create_node(node(name))
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    *before, last = await cluster.watch(NODES, query, until=_is_bookmark)
    assert last["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true"
    assert {event["type"] for event in before} == {"ADDED"}
    assert name in [_name(event) for event in before]


# ---------------------------------------------------------------------- forms


@check
async def partial_metadata_list(cluster: Cluster) -> None:
    """A list may be asked for as metadata only; its items say that they are partial."""
    await cluster.core.create_node(node(cluster.name("partial")))
    listed = await cluster.read(NODES, accept=METADATA_LIST)
    assert listed["kind"] == "PartialObjectMetadataList"
    assert listed["apiVersion"] == "meta.k8s.io/v1"
    for item in listed["items"]:
        assert item["kind"] == "PartialObjectMetadata"
        assert {"spec", "status"}.isdisjoint(item)


@check
async def partial_metadata_watch(cluster: Cluster) -> None:
    """So may a watch."""
    name = cluster.name("partial-watch")
    created = await cluster.core.create_node(node(name))
    await cluster.core.patch_node(name, {"metadata": {"labels": {"z": "1"}}})
    query = {"resourceVersion": created.metadata.resource_version}
    events = await cluster.watch(NODES, query, until=_labelled(name, z="1"), accept=METADATA)
    seen = events[-1]["object"]
    assert (seen["kind"], seen["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert {"spec", "status"}.isdisjoint(seen)


@check
async def table_format(cluster: Cluster) -> None:
    """A list may be asked for as a Table, whose first column is the name."""
    name = cluster.name("row")
    await cluster.core.create_node(node(name))
    table = await cluster.read(NODES, accept=TABLE)
    assert table["kind"] == "Table"
    assert table["columnDefinitions"][0]["name"] == "Name"
    assert name in [row["cells"][0] for row in table["rows"]]


@check
async def openapi_discovery(cluster: Cluster) -> None:
    """Clients find groups, kinds and subresources."""
    for path in ("/api", "/apis", "/apis/policy/v1", "/version", "/openapi/v3"):
        assert (await cluster.request("GET", path)).status == 200, path
    core = await cluster.read("/api/v1")
    assert core["groupVersion"] == "v1"
    names = {each["name"] for each in core["resources"]}
    assert {"nodes", "nodes/status", "pods/eviction", "pods/binding"} <= names


@check
async def readyz(cluster: Cluster) -> None:
    """A server that serves says ok."""
    response = await cluster.request("GET", "/readyz")
    assert (response.status, await response.text()) == (200, "ok")


@check
async def tokenreview_anon(cluster: Cluster) -> None:
    """A token that nobody issued is not authenticated."""
    review = await cluster.authentication.create_token_review({"spec": {"token": "bad"}})
    assert not review.status.authenticated


# ---------------------------------------------------------------------- changes


async def _two_conditions(cluster: Cluster, name: str) -> None:
    await cluster.core.create_node(node(name))
    both = [{"type": kind, "status": "True"} for kind in ("A", "B")]
    await cluster.core.patch_node_status(
        name, {"status": {"conditions": both}}, _content_type=MERGE
    )


@check
async def merge_patch_lists_replace(cluster: Cluster) -> None:
    """A merge patch replaces a list."""
    name = cluster.name("merge")
    await _two_conditions(cluster, name)
    patch = {"status": {"conditions": [{"type": "A", "status": "False"}]}}
    patched = await cluster.core.patch_node_status(name, patch, _content_type=MERGE)
    assert [each.type for each in patched.status.conditions] == ["A"]


@check
async def strategic_patch_conditions_merge(cluster: Cluster) -> None:
    """The client sends dicts as strategic patches, which merge conditions by type."""
    name = cluster.name("strategic")
    await _two_conditions(cluster, name)
    patch = {"status": {"conditions": [{"type": "A", "status": "False"}]}}
    patched = await cluster.core.patch_node_status(name, patch)
    seen = sorted((each.type, each.status) for each in patched.status.conditions)
    assert seen == [("A", "False"), ("B", "True")]


@check
async def json_patch_test_op(cluster: Cluster) -> None:
    """The client sends lists as JSON patches; a failed test changes nothing and is Invalid."""
    name = cluster.name("json")
    await cluster.core.create_node(node(name))
    label = "/metadata/labels/a"
    add = {"op": "add", "path": "/metadata/labels/c~1d", "value": "1"}
    patched = await cluster.core.patch_node(
        name, [{"op": "test", "path": label, "value": "b"}, add]
    )
    assert patched.metadata.labels["c/d"] == "1"
    wrong = [{"op": "test", "path": label, "value": "z"}, {"op": "remove", "path": label}]
    status = await refused(cluster.core.patch_node(name, wrong), 422)
    assert (status["reason"], status["details"]) == ("Invalid", {})
    assert (await cluster.core.read_node(name)).metadata.labels["a"] == "b"


@check
async def patch_stale_rv_409(cluster: Cluster) -> None:
    """Of two patches with the same resourceVersion one wins and the other is a Conflict."""
    api = cluster.core
    created = await api.create_namespaced_config_map(cluster.run, {"metadata": {"name": "race"}})
    version = created.metadata.resource_version
    patches = [
        {"metadata": {"resourceVersion": version, "labels": {"winner": word}}}
        for word in ("first", "second")
    ]
    calls = [
        api.patch_namespaced_config_map("race", cluster.run, patch, _content_type=MERGE)
        for patch in patches
    ]
    results = await asyncio.gather(*calls, return_exceptions=True)
    refusals = [each for each in results if isinstance(each, client.ApiException)]
    assert [each.status for each in refusals] == [409]
    assert '"Conflict"' in str(refusals[0].body)


@check
async def noop_patch_keeps_rv(cluster: Cluster) -> None:
    """A write that changes nothing keeps the resourceVersion."""
    api = cluster.core
    await api.create_namespaced_config_map(cluster.run, {"metadata": {"name": "same"}})
    patch = {"metadata": {"labels": {"q": "1"}}}
    first = await api.patch_namespaced_config_map("same", cluster.run, patch)
    second = await api.patch_namespaced_config_map("same", cluster.run, patch)
    assert first.metadata.resource_version == second.metadata.resource_version


@check
async def status_subresource_isolated(cluster: Cluster) -> None:
    """The object ignores a status that is sent, /status ignores the rest."""
    name = cluster.name("status")
    await cluster.core.create_node(node(name))
    patched = await cluster.core.patch_node(name, {"status": {"capacity": {"gpu": "9"}}})
    assert "gpu" not in (patched.status.capacity or {})
    patch = {"status": {"capacity": {"x.test/gpu": "8"}}, "spec": {"unschedulable": True}}
    patched = await cluster.core.patch_node_status(name, patch)
    assert patched.status.capacity["x.test/gpu"] == "8"
    assert not patched.spec.unschedulable


@check
async def put_stale_rv_409(cluster: Cluster) -> None:
    """A PUT with a stale resourceVersion is refused, one without any overwrites."""
    body = {"metadata": {"name": "put"}, "data": {"a": "1"}}
    stale = await cluster.core.create_namespaced_config_map(cluster.run, body)
    await cluster.core.patch_namespaced_config_map("put", cluster.run, {"data": {"a": "2"}})
    stale.data["a"] = "3"
    await refused(cluster.core.replace_namespaced_config_map("put", cluster.run, stale), 409)
    stale.metadata.resource_version = None
    put = await cluster.core.replace_namespaced_config_map("put", cluster.run, stale)
    assert put.data == {"a": "3"}


@check
async def configmap_put_drops_keys(cluster: Cluster) -> None:
    """What a PUT leaves out is gone."""
    body = {"metadata": {"name": "drop"}, "data": {"a": "1", "b": "2"}}
    created = await cluster.core.create_namespaced_config_map(cluster.run, body)
    created.data = {"b": "2"}
    put = await cluster.core.replace_namespaced_config_map("drop", cluster.run, created)
    assert put.data == {"b": "2"}


def _budget(name: str, **labels: str) -> Json:
    selector = {"matchLabels": labels}
    return {"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": selector}}


@check
async def generation_bumps_on_spec_only(cluster: Cluster) -> None:
    """The generation counts changes of spec, not of labels."""
    api = cluster.policy
    body = _budget("counted", q="q")
    created = await api.create_namespaced_pod_disruption_budget(cluster.run, body)
    generations = [created.metadata.generation]
    for patch in ({"metadata": {"labels": {"a": "b"}}}, {"spec": {"minAvailable": 2}}):
        patched = await api.patch_namespaced_pod_disruption_budget("counted", cluster.run, patch)
        generations.append(patched.metadata.generation)
    assert generations == [1, 1, 2]


@check
async def lease_conflict(cluster: Cluster) -> None:
    """Of two holders that read the same lease only the first can take it."""
    api = cluster.coordination
    spec = {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "renewTime": "2026-01-01T00:00:00.123456Z",
    }
    body = {"metadata": {"name": "lease"}, "spec": spec}
    first = await api.create_namespaced_lease(cluster.run, body)
    second = await api.read_namespaced_lease("lease", cluster.run)
    first.spec.holder_identity, second.spec.holder_identity = "b", "c"
    await api.replace_namespaced_lease("lease", cluster.run, first)
    await refused(api.replace_namespaced_lease("lease", cluster.run, second), 409)
    held = await api.read_namespaced_lease("lease", cluster.run)
    assert held.spec.holder_identity == "b"


# ---------------------------------------------------------------------- events


@check
async def event_create(cluster: Cluster) -> None:
    """An Event about a node lives in namespace default and is found by what it is about."""
    name = cluster.name("told")
    moment = "2026-01-01T00:00:00.123456+00:00"
    body = {
        "metadata": {"generateName": "e-"},
        "involvedObject": {"kind": "Node", "name": name},
        "reason": "R",
        "message": "hello",
        "type": "Normal",
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
        "source": {"component": "suite"},
    }
    created = await cluster.core.create_namespaced_event("default", body)
    assert created.metadata.name.startswith("e-")
    found = await cluster.core.list_namespaced_event(
        "default", field_selector=f"involvedObject.name={name}"
    )
    assert [each.message for each in found.items] == ["hello"]


@check
async def events_v1_create(cluster: Cluster) -> None:
    """An Event written through events.k8s.io is read through v1 under the old names."""
    name = cluster.name("e1")
    body = {
        "metadata": {"name": name},
        "regarding": {"kind": "Node", "name": "n"},
        "reason": "R1",
        "note": "n1",
        "type": "Normal",
        "action": "A",
        "eventTime": "2026-01-01T00:00:00.123456Z",
        "reportingController": "suite.test/c",
        "reportingInstance": "i",
    }
    await cluster.events.create_namespaced_event("default", body)
    seen = await cluster.core.read_namespaced_event(name, "default")
    assert (seen.message, seen.involved_object.kind) == ("n1", "Node")


# ---------------------------------------------------------------------- pods


@check
async def pod_defaults_pending(cluster: Cluster) -> None:
    """A new pod is Pending and has the defaults of its spec."""
    created = await cluster.core.create_namespaced_pod(cluster.run, pod("defaults"))
    assert created.status.phase == "Pending"
    assert created.spec.termination_grace_period_seconds == 30
    assert created.spec.restart_policy == "Always"


@check
async def pod_generate_name(cluster: Cluster) -> None:
    """A generated name has five letters after its prefix."""
    body = {**pod("unused"), "metadata": {"generateName": "g-"}}
    created = await cluster.core.create_namespaced_pod(cluster.run, body)
    assert created.metadata.name.startswith("g-")
    assert len(created.metadata.name) == len("g-") + 5


@check
async def pod_bind_and_double_bind_409(cluster: Cluster) -> None:
    """A binding sets node and condition; a second one is refused."""
    await cluster.core.create_namespaced_pod(cluster.run, pod("bound"))
    assert (await bind(cluster, "bound"))[0] == 201
    seen = await cluster.core.read_namespaced_pod("bound", cluster.run)
    assert seen.spec.node_name == cluster.name("node")
    conditions = {each.type: each.status for each in seen.status.conditions}
    assert conditions["PodScheduled"] == "True"
    assert (await bind(cluster, "bound"))[0] == 409


@check
async def pod_delete_with_grace(cluster: Cluster) -> None:
    """A bound pod stays, marked, until a deletion with grace 0."""
    await bound_pod(cluster, "grace")
    await cluster.core.delete_namespaced_pod("grace", cluster.run, grace_period_seconds=5)
    seen = await cluster.core.read_namespaced_pod("grace", cluster.run)
    assert seen.metadata.deletion_timestamp
    assert seen.metadata.deletion_grace_period_seconds == 5
    await cluster.core.delete_namespaced_pod("grace", cluster.run, grace_period_seconds=0)
    await refused(cluster.core.read_namespaced_pod("grace", cluster.run), 404)


@check
async def pod_delete_unbound_immediate(cluster: Cluster) -> None:
    """A pod without a node goes at once."""
    await cluster.core.create_namespaced_pod(cluster.run, pod("unbound"))
    await cluster.core.delete_namespaced_pod("unbound", cluster.run)
    await refused(cluster.core.read_namespaced_pod("unbound", cluster.run), 404)


@check
async def evict_plain(cluster: Cluster) -> None:
    """An eviction without a budget is a deletion with its options."""
    await bound_pod(cluster, "evicted")
    code, status = await evict(cluster, "evicted", {"gracePeriodSeconds": 7})
    assert (code, status["status"]) == (201, "Success")
    seen = await cluster.core.read_namespaced_pod("evicted", cluster.run)
    assert seen.metadata.deletion_timestamp
    assert seen.metadata.deletion_grace_period_seconds == 7


@check
async def evict_uid_precondition_409(cluster: Cluster) -> None:
    """An eviction meant for another pod of that name is refused."""
    await bound_pod(cluster, "replaced")
    code, _ = await evict(cluster, "replaced", {"preconditions": {"uid": "0-0"}})
    assert code == 409


@check
async def evict_pdb_429(cluster: Cluster) -> None:
    """A budget refuses an eviction with cause DisruptionBudget; without it the pod goes."""
    api = cluster.policy
    await bound_pod(cluster, "kept", app="kept")
    budget = _budget("keeper", app="kept")
    await api.create_namespaced_pod_disruption_budget(cluster.run, budget)

    async def is_processed() -> bool:
        seen = await api.read_namespaced_pod_disruption_budget("keeper", cluster.run)
        return bool(seen.status and seen.status.expected_pods)

    processed: bool = await eventually(is_processed)
    assert processed
    code, status = await evict(cluster, "kept")
    assert code == 429
    assert status["details"]["causes"][0]["reason"] == "DisruptionBudget"
    await api.delete_namespaced_pod_disruption_budget("keeper", cluster.run)

    async def is_evicted() -> bool:
        code, _ = await evict(cluster, "kept")
        return code == 201  # a real server may not have seen the deletion yet

    gone: bool = await eventually(is_evicted)
    assert gone
