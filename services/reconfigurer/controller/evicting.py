"""One pod → one eviction, by its UID and under its disruption budgets; `drain` calls it."""

from __future__ import annotations

import enum

from services.reconfigurer.controller import kube
from services.reconfigurer.controller.eviction import Pod

BUDGET_RETRY_S = 5.0  # where the server does not say when to come again


class Result(enum.Enum):
    """What became of an eviction that was not refused for now."""

    EVICTED = "evicted"
    GONE = "gone"  # or another pod of the same name


async def evict(api: kube.Kube, pod: Pod) -> Result | float:
    """Evict a pod; a number is for how many seconds its budget refuses.

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
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    try:
        await api.call("POST", path, body=body)
    except kube.KubeError as error:
        if error.later:
            return error.retry_after_s or BUDGET_RETRY_S
        if error.missing or error.conflict:
            return Result.GONE
        raise
    return Result.EVICTED
