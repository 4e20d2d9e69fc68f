"""Pods as the API server has them, and their evictions; `drain` calls it."""

from __future__ import annotations

import enum

from services.reconfigurer.controller import eviction, kube
from services.reconfigurer.controller.eviction import Later, Pod
from shared.runtime import clock
from shared.telemetry import catalogue

RETRY_S = 5.0  # where the server does not say when to come again
BUDGET = "may not be evicted now: a disruption budget says so"


class Result(enum.Enum):
    """What became of an eviction that was not refused."""

    EVICTED = "evicted"
    GONE = "gone"  # or another pod of the same name


async def read(api: kube.Kube, key: str) -> Pod | None:
    """Read the pod `namespace/name` as it is now.

    Raises:
        KubeError: refused, or not reached.
    """
    namespace, _, name = key.partition("/")
    try:
        return eviction.of(await api.call("GET", kube.pod_path(namespace, name)))
    except kube.KubeError as error:
        if not error.missing:
            raise
        return None


async def evict(api: kube.Kube, pod: Pod) -> Result | Later:
    """Evict a pod, by its UID.

    Whatever the server has against it (a disruption budget, two of them, a webhook, a right that
    is missing) holds up no other pod: this one is asked for again later.
    """
    namespace, _, name = pod.key.partition("/")
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": namespace, "name": name},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }
    try:
        await api.call("POST", f"{kube.pod_path(namespace, name)}/eviction", body=body)
    except kube.KubeError as error:
        if error.missing or error.conflict:
            api.meters.count(catalogue.EVICTIONS, outcome=Result.GONE.value)
            return Result.GONE
        api.meters.count(catalogue.EVICTIONS, outcome="blocked" if error.later else "failed")
        why = BUDGET if error.later else f"could not be evicted: {error}"
        return Later(clock.loop_time() + (error.retry_after_s or RETRY_S), why)
    api.meters.count(catalogue.EVICTIONS, outcome=Result.EVICTED.value)
    return Result.EVICTED
