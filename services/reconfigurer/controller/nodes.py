"""Nodes as the metadata watch shows them, and patches that say only what differs.

`differences` is pure; `Patches` sends: serial per node, parallel across nodes, latest wins.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from services.reconfigurer.controller import conditions, kube, saying
from shared.contract import names
from shared.runtime import backoff, clock

log = logging.getLogger(__name__)

WORKERS = 8
Texts = Mapping[str, str]

# Who says that a node has GPUs: Node Feature Discovery, NVIDIA's operator, or the administrator.
GPU_LABELS = (
    "feature.node.kubernetes.io/pci-10de.present",
    "feature.node.kubernetes.io/pci-0302_10de.present",
    "feature.node.kubernetes.io/pci-0300_10de.present",
    "nvidia.com/gpu.present",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What we know of a node from Kubernetes."""

    name: str
    uid: str = ""
    labels: Texts = field(default_factory=dict)
    annotations: Texts = field(default_factory=dict)

    @property
    def about(self) -> saying.About:
        """The node as the object of an Event."""
        return saying.About(kind="Node", name=self.name, uid=self.uid)

    @property
    def clear_health(self) -> str:
        """What an operator has written to end the verdicts on its GPUs, empty for nothing."""
        return self.annotations.get(names.CLEAR_HEALTH_ANNOTATION, "")

    def says_gpu(self, config_label: str) -> bool:
        """Whether its labels say that it has GPUs, or that somebody wants it configured."""
        asked = config_label in self.labels or names.MIG_CONFIG_LABEL in self.labels
        return asked or any(self.labels.get(label) == "true" for label in GPU_LABELS)


def node_of(found: kube.Json) -> Node:
    """Read a PartialObjectMetadata."""
    metadata = found["metadata"]
    return Node(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
    )


@dataclass(frozen=True, slots=True)
class Wanted:
    """Labels and annotations that a node shall have; None: shall not have.

    `conditions` are all of ours, or none where nothing is said of them.
    """

    labels: Mapping[str, str | None] = field(default_factory=dict)
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    conditions: conditions.Conditions = ()
    done: tuple[Callable[[], object], ...] = ()  # called once the node has them

    def over(self, older: Wanted) -> Wanted:
        """Both wishes as one; this one wins where they differ."""
        return Wanted(
            {**older.labels, **self.labels},
            {**older.annotations, **self.annotations},
            self.conditions or older.conditions,
            older.done + self.done,
        )


def differences(node: Node, wanted: Wanted) -> dict[str, Any]:
    """The merge patch that brings `node` to `wanted`; empty when it is there already."""
    annotations = dict(wanted.annotations)
    if wanted.conditions:
        annotations[names.CONDITIONS_ANNOTATION] = conditions.marks(wanted.conditions)
    metadata = {
        name: changed
        for name, has, shall in (
            ("labels", node.labels, wanted.labels),
            ("annotations", node.annotations, annotations),
        )
        if (changed := {key: text for key, text in shall.items() if has.get(key) != text})
    }
    return {"metadata": metadata} if metadata else {}


def told_conditions(node: Node, wanted: Wanted, now: str) -> dict[str, Any]:
    """The status of the patch; a patch with a status goes to the node's status, labels and all."""
    if not wanted.conditions:
        return {}
    changed = conditions.patch(node.annotations, wanted.conditions, now)
    return {"status": {"conditions": changed}} if changed else {}


class Patches:
    """Sends what nodes shall have, until they have it or are gone."""

    def __init__(self, api: kube.Kube, known: Mapping[str, Node]) -> None:
        self._api = api
        self._known = known
        self._wanted: dict[str, Wanted] = {}
        self._queue: asyncio.Queue[str] = asyncio.Queue()  # names; at most one entry a node
        self._taken: set[str] = set()  # in the queue or with a worker

    def want(self, name: str, wanted: Wanted) -> None:
        """Note a wish; it joins the node's earlier ones that have not been sent."""
        older = self._wanted.get(name)
        self._wanted[name] = wanted.over(older) if older else wanted
        self._hand_out(name)

    async def run(self) -> None:
        """Send until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(WORKERS):
                tasks.create_task(self._work(), name=f"patch nodes {number}")

    async def _work(self) -> NoReturn:
        waits = backoff.Backoff()
        while True:
            name = await self._queue.get()
            wanted = self._wanted.pop(name)
            try:
                await self._send(name, wanted)
                waits.reset()
            except kube.KubeError as error:
                log.warning("node %s not patched: %s; trying again", name, error)
                newer = self._wanted.get(name)
                self._wanted[name] = newer.over(wanted) if newer else wanted
                await clock.sleep(waits.next())
            self._taken.discard(name)
            if name in self._wanted:
                self._hand_out(name)

    async def _send(self, name: str, wanted: Wanted) -> None:
        node = self._known.get(name)
        patch = differences(node, wanted) if node else {}
        told = told_conditions(node, wanted, clock.utc(clock.now_ns())) if node else {}
        if patch or told:
            try:
                await self._api.call(
                    "PATCH",
                    f"/api/v1/nodes/{name}" + ("/status" if told else ""),
                    body=patch | told,
                    content=kube.STRATEGIC_PATCH if told else kube.MERGE_PATCH,
                    accept=kube.METADATA,
                )
            except kube.KubeError as error:
                if not error.missing:
                    raise
        for done in wanted.done:
            done()

    def _hand_out(self, name: str) -> None:
        if name not in self._taken:
            self._taken.add(name)
            self._queue.put_nowait(name)
