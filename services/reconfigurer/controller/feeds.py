"""What the watches say → the fleet, and marks for the resolver and the report.

Each node's heartbeat passes here, so what has not changed is dropped by a comparison or two.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from services.reconfigurer.controller import fleet, kube, nodes, texts, watch

log = logging.getLogger(__name__)

NODES = watch.Feed(says="nodes", path="/api/v1/nodes", metadata_only=True)


def config_map_feed(namespace: str, name: str) -> watch.Feed:
    """Follow the one ConfigMap: rights on this name are enough, others never travel."""
    return watch.Feed(
        says=f"ConfigMap {namespace}/{name}",
        path=f"/api/v1/namespaces/{namespace}/configmaps",
        field_selector=f"metadata.name={name}",
    )


class Nodes:
    """Follows node metadata."""

    def __init__(
        self,
        fleet_: fleet.Fleet,
        relabelled: Callable[[Iterable[str]], None],
        touched: Callable[[str], None],
    ) -> None:
        self._fleet = fleet_
        self._relabelled = relabelled
        self._touched = touched

    def replaced(self, objects: list[kube.Json]) -> None:
        """Take all nodes; those whose labels have changed meanwhile are looked at together."""
        listed = {node.name: node for node in map(nodes.node_of, objects)}
        before = dict(self._fleet.nodes)
        self._fleet.nodes.clear()
        self._fleet.nodes.update(listed)
        self._fleet.nodes_listed.set()
        self._relabelled(
            [name for name, node in listed.items() if _differs(before.get(name), node)]
        )
        for name in listed:
            self._touched(name)

    def changed(self, found: kube.Json) -> None:
        """Take one node; a heartbeat ends here."""
        node = nodes.node_of(found)
        before = self._fleet.nodes.get(node.name)
        self._fleet.nodes[node.name] = node
        if _differs(before, node):
            self._relabelled([node.name])
        if before is None or before != node:
            self._touched(node.name)

    def gone(self, found: kube.Json) -> None:
        """Forget a node; its values on the bus stay for an hour, in case it comes back."""
        self._fleet.nodes.pop(found["metadata"]["name"], None)


class ConfigMap:
    """Follows one ConfigMap; `edited` is told of each change of what it holds."""

    def __init__(
        self, name: str, listed: asyncio.Event, edited: Callable[[texts.ConfigMap], None]
    ) -> None:
        self._now = texts.ConfigMap(name=name)
        self._listed = listed
        self._edited = edited

    def replaced(self, objects: list[kube.Json]) -> None:
        """Take it, or learn that it does not exist."""
        found = [each for each in objects if each["metadata"]["name"] == self._now.name]
        self._take(found[0] if found else None)
        self._listed.set()

    def changed(self, found: kube.Json) -> None:
        """Take its newest text."""
        self._take(found)

    def gone(self, found: kube.Json) -> None:
        """Learn that it was deleted."""
        self._take(None)

    def _take(self, found: kube.Json | None) -> None:
        before = self._now
        metadata = found["metadata"] if found else {}
        self._now = texts.ConfigMap(
            name=before.name,
            resource_version=metadata.get("resourceVersion", ""),
            data=(found.get("data") or {}) if found else None,
        )
        if self._now.data != before.data:
            version = self._now.resource_version
            log.info("ConfigMap %s has changed: version %s", before.name, version or "(gone)")
            self._edited(self._now)


def _differs(before: nodes.Node | None, now: nodes.Node) -> bool:
    if before is None or before.labels != now.labels:
        return True
    return before.clear_health != now.clear_health
