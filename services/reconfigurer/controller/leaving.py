"""A node as slicewire leaves it → as it would be without: what `slicewire cleanup` takes back.

Only what we have written, by our own marks: labels of a node that we never labelled, a cordon that
somebody else has touched, and the labels by which people choose a configuration stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from services.reconfigurer.controller import components, conditions, cordon, kube, snapshot
from services.reconfigurer.controller.snapshot import Patch, Snapshot
from shared.contract import names
from shared.runtime import clock
from shared.sharing import labels

PAGE = "500"


async def clean(api: kube.Kube) -> list[str]:
    """Clean every node; return the names of those that had something of ours.

    Raises:
        KubeError: the API server refused, or was not reached; what is done stays done.
    """
    cleaned: list[str] = []
    query = {"limit": PAGE}
    while True:
        page = await api.call("GET", "/api/v1/nodes", query=query)
        nodes = page.get("items") or ()
        cleaned += [str(each["metadata"]["name"]) for each in nodes if await _clean(api, each)]
        resume = (page.get("metadata") or {}).get("continue")
        if not resume:
            return cleaned
        query = {"limit": PAGE, "continue": resume}


async def _clean(api: kube.Kube, found: Mapping[str, Any]) -> bool:
    node = snapshot.of(found)
    path = f"/api/v1/nodes/{node.name}"
    if told := conditions.patch(node.annotations, (), clock.utc(clock.now_ns())):
        status = {"status": {"conditions": told}}
        await api.call("PATCH", f"{path}/status", body=status, content=kube.STRATEGIC_PATCH)
    patch = without_us(node)
    if patch:
        body = patch.body("")
        del body["metadata"]["resourceVersion"]  # the status has just changed it
        await api.call("PATCH", path, body=body, content=kube.MERGE_PATCH)
    return bool(told) or bool(patch)


def without_us(node: Snapshot) -> Patch:
    """What brings a node back. Pure."""
    ours = {name for name in node.annotations if name.startswith(names.ANNOTATIONS)}
    written: set[str] = set()
    if names.LABELS_GENERATION_ANNOTATION in ours:
        written |= labels.ours(node.labels)
    if names.MIG_GENERATION_ANNOTATION in ours:
        written.add(names.MIG_STATE_LABEL)
    return (
        cordon.lift(node, kube.AGENT)
        | components.restore(node)
        | Patch(
            labels=dict.fromkeys(sorted(written & node.labels.keys())),
            annotations=dict.fromkeys(sorted(ours)),
        )
    )
