"""One leader's term: watches, readers and writers, and who tells whom. `app` starts it.

A new leader begins with empty hands: everything in here is made from Kubernetes and the bus.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from dataclasses import dataclass

from services.reconfigurer.controller import (
    absent,
    drain,
    durations,
    events,
    facts,
    feeds,
    fleet,
    kube,
    measures,
    nodes,
    report,
    resolver,
    standing,
    texts,
    watch,
    watching,
)
from services.reconfigurer.controller.settings import ControllerSettings
from shared.bus import fleet as bus_fleet
from shared.bus.connection import Bus
from shared.bus.state import Received
from shared.contract import table
from shared.contract.messages import Intent, Inventory, Ledger, Progress
from shared.runtime import clock
from shared.telemetry import spans


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """What outlives a term."""

    settings: ControllerSettings
    api: kube.Kube
    bus: Bus
    telemetry: spans.Telemetry
    identity: str


class Term:
    """The work of a leader.

    Args:
        process: what it works with.
        store: the store of the bucket of intents.
        inherited: the intents that stand there.
    """

    def __init__(
        self, process: Process, store: int, inherited: Mapping[str, Received[Intent]]
    ) -> None:
        settings, bus = process.settings, process.bus
        self._api = process.api
        self._fleet = fleet.Fleet(
            config_label=settings.config_label,
            intents={node: received.value for node, received in inherited.items()},
            config_map=texts.ConfigMap(name=settings.config_map, unshared=settings.unshared),
            mig_map=texts.ConfigMap(name=settings.mig_config_map),
        )
        self._writer: bus_fleet.FleetWriter[Intent] = bus_fleet.FleetWriter(bus, standing.INTENT)
        self._standing = standing.Standing(bus, store, inherited, self._writer.put)
        self._events = events.Events(process.api, process.identity)
        self._patches = nodes.Patches(process.api, self._fleet.nodes)
        self._report = report.Report(
            self._fleet, self._events.say, self._patches.want, process.telemetry
        )
        self._meters = process.telemetry.meters
        self._durations = durations.Durations(self._fleet, self._meters)
        self._resolver = self._made_resolver(process)
        self._drain = self._made_drain(process)
        self._config_feed, self._mig_feed = (
            feeds.config_map_feed(settings.namespace, name)
            for name in (settings.config_map, settings.mig_config_map)
        )
        self._inventories: bus_fleet.FleetReader[Inventory] = bus_fleet.FleetReader(
            bus, table.bucket("inventory"), self._on_inventory, on_renewed=self._heard
        )
        self._fleet.hardware_read = self._inventories.looked
        self._ledgers: bus_fleet.FleetReader[Ledger] = bus_fleet.FleetReader(
            bus, table.bucket("ledger"), self._on_ledger
        )
        self._progress: bus_fleet.FleetReader[Progress] = bus_fleet.FleetReader(
            bus, table.bucket("progress"), self._drain.progress_seen
        )
        self._fleet.progress_read = self._progress.looked
        self._absent = absent.Absent(bus, self._fleet, self._forget)
        self._facts = facts.Facts(bus, self._fleet.nodes, self._events.say)
        self._waiting = watching.Watching(
            process.api, bus, self._fleet, self._events.say, settings.waiting_event_seconds
        )

    def _made_resolver(self, process: Process) -> resolver.Resolver:
        settings = process.settings
        return resolver.Resolver(
            self._fleet,
            settings.choice,
            resolver.Outlets(
                publish=self._publish,
                begun=self._durations.begun,
                say=self._events.say,
                want=self._patches.want,
            ),
            process.telemetry,
            process.bus.writer,
            mig=resolver.Mig(settings.mig_default, settings.mig_policy),
        )

    def _made_drain(self, process: Process) -> drain.Drain:
        return drain.Drain(
            process.api,
            self._fleet,
            process.settings.drain,
            drain.Outlets(
                publish=self._standing.publish,
                say=self._events.say,
                told=self._told,
            ),
            process.telemetry,
        )

    async def run(self, transitions: int) -> None:
        """Lead until cancelled, with four watches however many nodes there are."""
        hide = (
            self._meters.show(lambda: measures.samples(self._fleet, clock.now_ns())),
            self._meters.show(self._waiting.samples),
        )
        try:
            await self._work(transitions)
        finally:
            for each in hide:
                each()

    async def _work(self, transitions: int) -> None:
        look_at, view = self._resolver.look_at, self._fleet
        nodes_follower = feeds.Nodes(
            view, functools.partial(look_at, by_label=True), self._node_touched
        )
        sharing = feeds.ConfigMap(view.config_map.name, view.config_listed, self._sharing_edited)
        mig = feeds.ConfigMap(view.mig_map.name, view.mig_listed, self._mig_edited)
        async with asyncio.TaskGroup() as tasks:
            for work, name in (
                (watch.follow(self._api, feeds.NODES, nodes_follower), "watch nodes"),
                (watch.follow(self._api, self._config_feed, sharing), "watch sharing texts"),
                (watch.follow(self._api, self._mig_feed, mig), "watch the MIG text"),
                (self._resolver.run(transitions), "resolve"),
                (self._drain.run(), "drain"),
                (self._writer.run(), "write intents"),
                (self._standing.run(), "keep the bus"),
                (self._inventories.run(), "read inventories"),
                (self._ledgers.run(), "read ledgers"),
                (self._progress.run(), "read progress"),
                (self._absent.run(), "bury nodes that have gone"),
                (self._facts.run(), "read facts"),
                (watch.follow(self._api, watching.PODS, self._waiting), "watch pods"),
                (self._waiting.run(), "tell of waiting pods"),
                (self._patches.run(), "patch nodes"),
                (self._events.run(), "post Events"),
            ):
                tasks.create_task(work, name=name)

    def _sharing_edited(self, config_map: texts.ConfigMap) -> None:
        self._fleet.config_map = config_map.after(self._fleet.config_map)
        self._resolver.look_at(list(self._fleet.nodes), by_label=False)

    def _mig_edited(self, config_map: texts.ConfigMap) -> None:
        self._fleet.mig_map = config_map
        self._resolver.look_at(list(self._fleet.nodes), by_label=False)

    def _publish(self, node: str, wanted: Intent, traceparent: str) -> None:
        self._standing.publish(node, wanted, traceparent)
        self._drain.reconsider(node)
        self._report.write(node, traceparent)

    def _told(self, node: str, traceparent: str) -> None:
        self._durations.look(node)
        self._report.write(node, traceparent)
        self._waiting.reconsider()

    def _node_touched(self, name: str) -> None:
        self._report.node_touched(name)
        self._waiting.reconsider()

    def _forget(self, node: str) -> None:
        """Let go of a node everywhere; if it comes back it is a new one."""
        self._writer.forget(node)
        self._standing.forget(node)
        self._resolver.forget(node)
        self._drain.forget(node)
        self._report.forget(node)
        self._durations.forget(node)
        self._waiting.forget(node)
        self._fleet.forget(node)

    def _heard(self, node: str, received: Received[Inventory]) -> None:
        self._fleet.heard[node] = received.stored_ns

    def _on_inventory(self, node: str, received: Received[Inventory]) -> None:
        self._heard(node, received)
        inventory = received.value
        before = self._fleet.inventories.get(node)
        self._report.inventory_seen(node, inventory, received.traceparent or inventory.traceparent)
        self._durations.look(node)
        self._drain.reconsider(node)
        if before is None or not fleet.same_hardware(before, inventory):
            self._resolver.look_at([node], by_label=False)

    def _on_ledger(self, node: str, received: Received[Ledger]) -> None:
        self._waiting.ledger_seen(node, received.value)
        self._report.ledger_seen(node, received.value)
        self._durations.look(node)
        self._drain.reconsider(node)
