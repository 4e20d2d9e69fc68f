"""Pods of a ReplicaSet come back: one that failed, was evicted or deleted gets a successor.

A stand-in for the ReplicaSet controller that knows owners only from their pods: each owner keeps as
many pods as were made for it. Without it, an evicted pod would be gone and its slots stay free.
"""

from __future__ import annotations

import logging
from typing import Any

from shared.simulation.kube import api_client, paths, placement

_log = logging.getLogger(__name__)


class ReplicaSets:
    """Replaces pods at one API server."""

    def __init__(self, api_url: str) -> None:
        self._api_url = api_url
        self._templates: dict[str, dict[str, Any]] = {}
        self._replaced: set[str] = set()

    async def run(self) -> None:
        """Replace until cancelled."""
        async with api_client.ApiClient(self._api_url) as api:
            async for change in api.follow(paths.PODS):
                await self._handle(api, change)

    async def _handle(self, api: api_client.ApiClient, change: api_client.Change) -> None:
        pod = change.object
        owner = _replica_set(pod)
        if owner is None:
            return
        # As first seen: without the node that the scheduler chooses later.
        template = self._templates.setdefault(owner["uid"], _template(pod, owner["name"]))
        ended = change.gone or placement.is_terminal(pod) or "deletionTimestamp" in pod["metadata"]
        if ended and change.uid not in self._replaced:
            self._replaced.add(change.uid)
            try:
                await api.create(paths.pods_in(pod["metadata"]["namespace"]), template)
            except api_client.ApiRefusedError as refused:
                _log.warning("no successor for %s: %s", pod["metadata"]["name"], refused)


def _replica_set(pod: dict[str, Any]) -> dict[str, Any] | None:
    """Return the reference to the ReplicaSet that controls a pod."""
    for owner in pod["metadata"].get("ownerReferences", ()):
        if owner["kind"] == "ReplicaSet" and owner.get("controller"):
            return dict(owner)
    return None


def _template(pod: dict[str, Any], owner: str) -> dict[str, Any]:
    """Make the object from which an owner's further pods are created."""
    metadata = pod["metadata"]
    kept = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
    references = metadata["ownerReferences"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": f"{owner}-", "ownerReferences": references, **kept},
        "spec": pod["spec"],
    }
