"""A node whose MIG layout changes, on the real bus and the embedded API server.

What agent, allocator, advertiser and kubelet do is scripted by `tests.support.changing_node`; here
their words go over the bus, and pods and allocatable devices stand in the API server.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from services.reconfigurer.controller import eviction, kube
from services.reconfigurer.controller.attempt import Policy
from shared.bus import connection, state
from shared.bus.connection import Bus
from shared.bus.login import Login
from shared.contract import names, table
from shared.contract.messages import Inventory, Ledger, Progress
from shared.contract.table import Role
from shared.runtime import clock
from shared.simulation.kube.apiserver import kinds, store
from shared.simulation.kube.apiserver.rules import Deletion
from tests.integration.controller.whole import NODE, Whole
from tests.support import changing_node
from tests.support.changing_node import DCGM, GPU, Running, World

STEP_S = 0.05
TICK_S = 0.2


@dataclass(eq=False)
class Node:
    """A running node in a test's hands."""

    whole: Whole
    made: World
    progress: state.StateWriter[Progress]
    inventories: state.StateWriter[Inventory]
    ledgers: state.StateWriter[Ledger]
    stays_up: set[str] = field(default_factory=set)  # pods that do not end when they should
    fails: int = 0  # so many attempts of the agent fail
    reports: bool = True  # whether the kubelet reports what it has to allocate
    told: tuple[object, ...] = ()
    evicted: list[str] = field(default_factory=list)

    def add_pod(self, name: str, slot: str = "", *, owner: str = "ReplicaSet") -> None:
        """A running pod; with a slot it holds that one."""
        limits = {GPU: "1"} if slot else {}
        references = [
            {"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "o", "controller": True}
        ]
        body = {
            "metadata": {
                "name": name,
                "labels": {"app": name},
                "ownerReferences": references if owner else [],
            },
            "spec": {
                "nodeName": NODE,
                "containers": [{"name": "main", "image": "x", "resources": {"limits": limits}}],
            },
        }
        objects = self.whole.at.server.objects
        objects.create(kinds.POD, "default", body)
        status = {
            "phase": "Running",
            "containerStatuses": [{"name": "main"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        stored = self._write_status(kinds.POD, "default", name, status)
        self.made.pods.append(Running(eviction.of(stored.data()), slot))

    def _write_status(
        self, kind: kinds.Kind, namespace: str, name: str, status: dict[str, Any]
    ) -> store.Stored:
        objects = self.whole.at.server.objects
        found = objects.read(kind, namespace, name).data()
        found["status"] = found.get("status", {}) | status
        return objects.replace(kind, namespace, name, found, part="status")

    def pods(self) -> list[str]:
        """Names of the pods that exist."""
        return [pod["metadata"]["name"] for pod in self.whole.at.all(kinds.POD)]

    def object(self) -> dict[str, Any]:
        """The whole node object."""
        found: dict[str, Any] = self.whole.at.server.objects.read(kinds.NODE, "", NODE).data()
        return found

    @property
    def unschedulable(self) -> bool:
        return bool(self.object().get("spec", {}).get("unschedulable"))

    @property
    def state(self) -> str | None:
        """`mig.config.state`."""
        labels: dict[str, str] = self.whole.at.node(NODE)["labels"]
        return labels.get(names.MIG_STATE_LABEL)

    @property
    def reason(self) -> str:
        return str(
            self.whole.at.node(NODE).get("annotations", {}).get(names.MIG_REASON_ANNOTATION, "")
        )

    def condition(self, kind: str) -> dict[str, Any]:
        """One of the node's conditions, empty without it."""
        conditions = self.object().get("status", {}).get("conditions") or ()
        return next((each for each in conditions if each["type"] == kind), {})

    @property
    def as_found(self) -> bool:
        """Whether nothing of ours is left on the node."""
        metadata = self.whole.at.node(NODE)
        marks = (names.CORDON_ANNOTATION, names.PAUSED_ANNOTATION, names.EVICTED_ANNOTATION)
        left = any(mark in metadata.get("annotations", {}) for mark in marks)
        return not left and metadata["labels"].get(DCGM) == "true"

    async def live(self) -> None:
        """Let agent, allocator and kubelet work until cancelled."""
        while True:
            newest = self.whole.newest()
            if newest is not None:
                self.made.intent = newest
                self.made.now = clock.loop_time()
                failing = self.fails > 0 and self._phase() == "applying"
                self.fails -= failing
                self.made.agent(fails=failing)
                self.made.acknowledge()
                self._kubelet()
                self._publish()
            await clock.sleep(STEP_S)

    def _phase(self) -> str:
        return self.made.progress.phase if self.made.progress else ""

    def _kubelet(self) -> None:
        objects = self.whole.at.server.objects
        for running in list(self.made.pods):
            namespace, _, name = running.pod.key.partition("/")
            found = self.whole.at.server.store.find(kinds.POD, (namespace, name))
            ending = found is not None and "deletionTimestamp" in found.data()["metadata"]
            if ending and name not in self.evicted:
                self.evicted.append(name)
            if ending and name not in self.stays_up:
                objects.delete(kinds.POD, namespace, name, Deletion(grace_seconds=0))
                found = None
            if found is None:
                self.made.end(running)
        if self.reports and clock.loop_time() - self.made.ticked >= TICK_S:
            self.made.tick()
            self.made.ticked = clock.loop_time()
            node = self.object()
            counts = {name: str(count) for name, count in self.made.node.allocatable.items()}
            if node.get("status", {}).get("allocatable") != counts:
                self._write_status(kinds.NODE, "", NODE, {"allocatable": counts})

    def _publish(self) -> None:
        heard = self.whole.intents[NODE][-1]
        inventory, ledger, progress = self.made.inventory(), self.made.ledger(), self.made.progress
        if (inventory, ledger, progress) == self.told:
            return
        self.told = inventory, ledger, progress
        self.inventories.put(inventory, heard.traceparent)
        self.ledgers.put(ledger, heard.traceparent)
        if progress is not None:
            self.progress.put(progress, heard.traceparent)


@contextlib.asynccontextmanager
async def running(whole: Whole, *, cordoned: bool = False) -> AsyncIterator[Node]:
    """A node with MIG devices and no pods, that a label can change."""
    labels = {"nvidia.com/gpu.present": "true", DCGM: "true"}
    whole.at.add_node(NODE, labels)
    if cordoned:
        await whole.at.api.call(
            "PATCH",
            f"/api/v1/nodes/{NODE}",
            body={"spec": {"unschedulable": True}},
            content=kube.MERGE_PATCH,
        )
    made = changing_node.world(Policy(), cordoned=cordoned, pods=())
    async with contextlib.AsyncExitStack() as stack:
        buses: dict[Role, Bus] = {}
        for role in (Role.AGENT, Role.ADVERTISER, Role.ALLOCATOR):
            user, password_file = whole.bus_server.credentials(role, NODE)
            login = Login(user, password_file)
            buses[role] = await stack.enter_async_context(
                connection.open_bus(whole.bus_server.url, login, role, NODE)
            )
        node = Node(
            whole,
            made,
            state.StateWriter(buses[Role.AGENT], table.bucket("progress"), NODE),
            state.StateWriter(buses[Role.ADVERTISER], table.bucket("inventory"), NODE),
            state.StateWriter(buses[Role.ALLOCATOR], table.bucket("ledger"), NODE),
        )
        async with asyncio.TaskGroup() as tasks:
            works = (node.progress.run(), node.inventories.run(), node.ledgers.run(), node.live())
            started = [tasks.create_task(work) for work in works]
            yield node
            for task in started:
                task.cancel()


async def label(whole: Whole, layout: str | None) -> None:
    """Set `nvidia.com/mig.config`."""
    await whole.at.patch_node(NODE, labels={names.MIG_CONFIG_LABEL: layout})
