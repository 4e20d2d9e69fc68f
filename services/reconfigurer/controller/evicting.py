"""Pods as the API server has them, and their evictions; `drain` calls it."""

from __future__ import annotations

import enum

from services.reconfigurer.controller import eviction, kube
from services.reconfigurer.controller.eviction import Pod
from shared.telemetry import catalogue

BUDGET_RETRY_S = 5.0  # where the server does not say when to come again


class Result(enum.Enum):
    """What became of an eviction that was not refused for now."""

    EVICTED = "evicted"
    GONE = "gone"  # or another pod of the same name


async def read(api: kube.Kube, key: str) -> Pod | None:
    """Read the pod `namespace/name` as it is now.

    Raises:
        KubeError: refused, or not reached.
    """
    namespace, _, name = key.partition("/")
    try:
        return eviction.of(await api.call("GET", _path(namespace, name)))
    except kube.KubeError as error:
        if not error.missing:
            raise
        return None


async def evict(api: kube.Kube, pod: Pod) -> Result | float:
    """Evict a pod, by its UID; a number is for how many seconds its budget refuses.

    Raises:
        KubeError: refused for another reason, or not reached.
    """
    namespace, _, name = pod.key.partition("/")
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": namespace, "name": name},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }
    try:
        await api.call("POST", f"{_path(namespace, name)}/eviction", body=body)
    except kube.KubeError as error:
        if error.later:
            api.meters.count(catalogue.EVICTIONS, outcome="blocked")
            return error.retry_after_s or BUDGET_RETRY_S
        if error.missing or error.conflict:
            api.meters.count(catalogue.EVICTIONS, outcome=Result.GONE.value)
            return Result.GONE
        api.meters.count(catalogue.EVICTIONS, outcome="failed")
        raise
    api.meters.count(catalogue.EVICTIONS, outcome=Result.EVICTED.value)
    return Result.EVICTED


def _path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"
