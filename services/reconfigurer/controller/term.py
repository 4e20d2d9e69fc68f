"""One leader's term: watches, readers and writers, and who tells whom. `app` starts it.

A new leader begins with empty hands: everything in here is made from Kubernetes and the bus.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from dataclasses import dataclass

from services.reconfigurer.controller import (
    events,
    feeds,
    fleet,
    intent,
    kube,
    nodes,
    report,
    resolver,
    standing,
    watch,
)
from services.reconfigurer.controller.settings import ControllerSettings
from shared.bus import fleet as bus_fleet
from shared.bus.connection import Bus
from shared.bus.state import Received
from shared.contract import table
from shared.contract.messages import Intent, Inventory, Ledger
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
            config_map=intent.ConfigMap(name=settings.config_map),
        )
        self._writer: bus_fleet.FleetWriter[Intent] = bus_fleet.FleetWriter(bus, standing.INTENT)
        self._standing = standing.Standing(bus, store, inherited, self._writer.put)
        self._events = events.Events(process.api, process.identity)
        self._patches = nodes.Patches(process.api, self._fleet.nodes)
        self._report = report.Report(
            self._fleet, self._events.say, self._patches.want, process.telemetry
        )
        self._resolver = resolver.Resolver(
            self._fleet,
            settings.choice,
            resolver.Outlets(
                publish=self._standing.publish, say=self._events.say, want=self._patches.want
            ),
            process.telemetry,
            bus.writer,
        )
        self._config_feed = feeds.config_map_feed(settings.namespace, settings.config_map)
        self._inventories: bus_fleet.FleetReader[Inventory] = bus_fleet.FleetReader(
            bus, table.bucket("inventory"), self._on_inventory
        )
        self._fleet.hardware_read = self._inventories.looked
        self._ledgers: bus_fleet.FleetReader[Ledger] = bus_fleet.FleetReader(
            bus, table.bucket("ledger"), self._on_ledger
        )

    async def run(self, transitions: int) -> None:
        """Lead until cancelled, with two watches however many nodes there are."""
        look_at = self._resolver.look_at
        nodes_follower = feeds.Nodes(
            self._fleet, functools.partial(look_at, by_label=True), self._report.node_touched
        )
        config_follower = feeds.ConfigMap(self._fleet, functools.partial(look_at, by_label=False))
        async with asyncio.TaskGroup() as tasks:
            for work, name in (
                (watch.follow(self._api, feeds.NODES, nodes_follower), "watch nodes"),
                (watch.follow(self._api, self._config_feed, config_follower), "watch ConfigMap"),
                (self._resolver.run(transitions), "resolve"),
                (self._writer.run(), "write intents"),
                (self._standing.run(), "keep the bus"),
                (self._inventories.run(), "read inventories"),
                (self._ledgers.run(), "read ledgers"),
                (self._patches.run(), "patch nodes"),
                (self._events.run(), "post Events"),
            ):
                tasks.create_task(work, name=name)

    def _on_inventory(self, node: str, received: Received[Inventory]) -> None:
        inventory = received.value
        before = self._fleet.inventories.get(node)
        self._report.inventory_seen(node, inventory, received.traceparent or inventory.traceparent)
        if before is None or not fleet.same_hardware(before, inventory):
            self._resolver.look_at([node], by_label=False)

    def _on_ledger(self, node: str, received: Received[Ledger]) -> None:
        self._report.ledger_seen(node, received.value)
