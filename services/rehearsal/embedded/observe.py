"""Conditions → what the embedded cluster shows now. One observer for each row of `vocabulary`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from services.rehearsal import matching
from services.rehearsal.embedded import containers, traces
from services.rehearsal.embedded.baseline import Baseline
from services.rehearsal.embedded.cluster import Cluster
from services.rehearsal.stage import Observation
from services.rehearsal.story import About, Condition
from services.views import fleet, holders, waiting, why
from shared.bus import errors
from shared.contract import table

NOTHING: Mapping[str, Any] = {}


async def observe(
    cluster: Cluster, baseline: Baseline, condition: Condition, moments: Mapping[str, int]
) -> Observation:
    """Look at what a condition is about."""
    given = condition.given
    match condition.about:
        case About.WHO:
            return _who(cluster, given["node"], given["gpu"])
        case About.TRACE:
            return await _trace(cluster, condition, moments)
        case About.NODE:
            seen = _node(cluster, baseline, condition.name)
        case About.POD:
            seen = _pod(cluster, condition.name)
        case About.WHY:
            seen = await _why(cluster, given["pod"])
        case About.BUS:
            seen = await _bus(cluster)
        case About.API:
            seen = _api(cluster, baseline)
    return Observation(seen, NOTHING)


def _node(cluster: Cluster, baseline: Baseline, name: str) -> dict[str, Any]:
    body = cluster.api.store.get("nodes", "", name) or {}
    status, record = body.get("status", {}), cluster.nodes[name].kubelet.record
    return {
        "capacity": _quantities(status.get("capacity", {})),
        "allocatable": _quantities(status.get("allocatable", {})),
        "labels": body.get("metadata", {}).get("labels", {}),
        "schedulable": not body.get("spec", {}).get("unschedulable", False),
        "condition": matching.Several(tuple(status.get("conditions", ()))),
        "event": _events(cluster, "Node", "", name),
        "rejections": len(record.rejections) - baseline.rejections[name],
        "slots": fleet.by_resource(cluster.book.ledgers.get(name)),
        "registrations": sum(record.registrations.values()),
        "lists": len(record.lists) - baseline.lists[name],
    }


def _pod(cluster: Cluster, key: str) -> dict[str, Any]:
    namespace, _, name = key.partition("/")
    body = cluster.api.store.get("pods", namespace, name) or {}
    node = body.get("spec", {}).get("nodeName")
    status = body.get("status", {})
    seen: dict[str, Any] = {
        "phase": status.get("phase"),
        "reason": status.get("reason"),
        "message": status.get("message"),
        "node": node,
        "evicted": key in cluster.evictions,
        "restarts": sum(each["restartCount"] for each in status.get("containerStatuses", ())),
        "event": _events(cluster, "Pod", namespace, name),
    }
    running = cluster.nodes[node].kubelet.pod(key) if node in cluster.nodes else None
    inventories = {node: cluster.book.inventories[node]} if node in cluster.book.inventories else {}
    return seen | containers.inside(running, holders.gpus_of_devices(inventories))


def _events(cluster: Cluster, kind: str, namespace: str, name: str) -> matching.Several:
    """Events about an object, oldest first."""
    about = {"kind": kind, "name": name} | ({"namespace": namespace} if namespace else {})
    events = [
        event
        for event in cluster.api.store.list("events")
        if about.items() <= event["involvedObject"].items()
    ]
    events.sort(key=lambda event: (event.get("lastTimestamp") or "", event["metadata"]["name"]))
    return matching.Several(
        tuple({"reason": each.get("reason"), "message": each.get("message")} for each in events)
    )


def _who(cluster: Cluster, node: str, gpu: int | str) -> Observation:
    rows = [
        row
        for row in holders.rows(cluster.book.ledgers, cluster.book.inventories)
        if row.node == node and gpu in (row.gpu, row.uuid)
    ]
    pods = sorted({row.pod for row in rows if row.pod})
    return Observation({"pods": pods}, {"holders": [row.form() for row in rows]})


async def _why(cluster: Cluster, key: str) -> dict[str, Any]:
    """What `slicewire why` says of a pod; nothing where it knows none."""
    try:
        verdict = await why.find(cluster.bus, cluster.book, key)
    except errors.BusError:
        return {}
    return waiting.form(verdict) if verdict else {}


async def _trace(cluster: Cluster, condition: Condition, moments: Mapping[str, int]) -> Observation:
    since = moments.get(condition.given["from"], 0)
    wants = dict(condition.wants)
    try:
        return await traces.observe(cluster.bus, since, wants.get("covers", []))
    except errors.BusError:
        return Observation(NOTHING, NOTHING)


async def _bus(cluster: Cluster) -> dict[str, Any]:
    """Count streams of the contract and all their consumers."""
    streams = consumers = 0
    if cluster.admin.connected:
        session = await cluster.admin.session()
        for each in (*table.BUCKETS, *table.LOGS):
            try:
                info = await session.manage("INFO", each.stream, {})
            except errors.BusError:
                continue
            streams += 1
            consumers += int(info["state"]["consumer_count"])
    return {"streams": streams, "consumers": consumers}


def _api(cluster: Cluster, baseline: Baseline) -> dict[str, Any]:
    """What everybody but the stand-ins does at the API server: a node service would be seen."""
    return {"watches": cluster.watches, "requests": cluster.requests - baseline.requests}


def _quantities(named: Mapping[str, str]) -> dict[str, int | str]:
    return {name: int(text) if text.isdecimal() else text for name, text in named.items()}
