"""What a story changes on a real cluster → as it was before, when the story ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from shared.simulation.kube import paths
from shared.simulation.kube.api_client import ApiClient, ApiRefusedError

KEPT = ("labels", "annotations")  # of an object that is made again


class Former:
    """Remembers each thing before its first change; the stack puts things back in reverse."""

    def __init__(self, api: ApiClient, stack: contextlib.AsyncExitStack) -> None:
        self._api = api
        self._stack = stack
        self._known: set[tuple[str, ...]] = set()

    async def labels(self, node: str, names: Iterable[str]) -> None:
        """These labels of a node are about to change."""
        fresh = [name for name in names if self._is_new("label", node, name)]
        if fresh:
            worn = (await self._api.get(paths.node(node)))["metadata"].get("labels") or {}
            former = {name: worn.get(name) for name in fresh}
            self._put_back(node, {"metadata": {"labels": former}})

    async def schedulable(self, node: str) -> None:
        """A node is about to be cordoned, or not any more."""
        if self._is_new("cordon", node):
            spec = (await self._api.get(paths.node(node)))["spec"]
            self._put_back(node, {"spec": {"unschedulable": spec.get("unschedulable")}})

    async def config_map(self, collection: str, name: str) -> Mapping[str, Any] | None:
        """A ConfigMap is about to change; return it as it stands, None where it does not."""
        found = await self._read(f"{collection}/{name}")
        if self._is_new("ConfigMap", collection, name):
            self._stack.push_async_callback(self._restore_config_map, collection, name, found)
        return found

    def made(self, path: str) -> None:
        """An object is about to be created at this path."""
        if self._is_new("object", path):
            self._stack.push_async_callback(self._remove, path)

    def _is_new(self, *thing: str) -> bool:
        new = thing not in self._known
        self._known.add(thing)
        return new

    def _put_back(self, node: str, body: dict[str, Any]) -> None:
        self._stack.push_async_callback(self._api.patch, paths.node(node), body)

    async def _restore_config_map(
        self, collection: str, name: str, former: Mapping[str, Any] | None
    ) -> None:
        """Put its data back, in one request: nodes act on whatever stands in between."""
        path = f"{collection}/{name}"
        if former is None:
            await self._remove(path)
            return
        data = former.get("data") or {}
        now = await self._read(path)
        if now is not None:
            gone = dict.fromkeys(now.get("data") or {})
            await self._api.patch(path, {"data": gone | data})
            return
        metadata = {key: former["metadata"][key] for key in KEPT if key in former["metadata"]}
        await self._api.create(collection, {"metadata": {"name": name, **metadata}, "data": data})

    async def _remove(self, path: str) -> None:
        with contextlib.suppress(ApiRefusedError):  # the story, or somebody else, has removed it
            await self._api.delete(path, {"gracePeriodSeconds": 0})

    async def _read(self, path: str) -> Mapping[str, Any] | None:
        try:
            return await self._api.get(path)
        except ApiRefusedError as refused:
            if refused.code != 404:
                raise
            return None
