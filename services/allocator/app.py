"""The allocator's composition: the one place that says which parts work together."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from services.allocator import checkpoint as checkpoints
from services.allocator import desk as desks
from services.allocator import endpoint as endpoint_
from services.allocator import endpoints as endpoints_
from services.allocator import folder as folders
from services.allocator import handover, held, ledger, measures, pod_resources, sources
from services.allocator import keeper as keepers
from services.allocator import plugin as plugins
from services.allocator.settings import AllocatorSettings
from shared.bus import connection, logs, state
from shared.bus import measures as bus_measures
from shared.bus.connection import Bus
from shared.contract import table
from shared.contract.messages import Hold, Inventory, Ledger
from shared.runtime import boot, clock, latest, locks
from shared.telemetry import meters, setup, spans

SERVICE = table.Role.ALLOCATOR


async def serve(settings: AllocatorSettings, measured: meters.Meters = meters.NOTHING) -> None:
    """Serve until cancelled. A second process waits here until the first one's lock falls."""
    node = settings.node_name
    async with (
        locks.ServingLock(settings.run_dir / "allocator.lock") as lock,
        setup.telemetry(SERVICE, node, os.environ, measured) as telemetry,
        connection.open_bus(settings.bus_url, settings.login, SERVICE, node) as bus,
    ):
        allocator = await Allocator.build(settings, bus, telemetry)
        await allocator.run(lock)


def steady_clock() -> Callable[[], int]:
    """Wall-clock time that never goes back while we run, so that stamps keep their order."""
    start = clock.now_ns() - int(clock.loop_time() * 1e9)
    return lambda: start + int(clock.loop_time() * 1e9)


class Allocator:
    """The parts of one node's allocator, and what runs when."""

    def __init__(
        self,
        settings: AllocatorSettings,
        bus: Bus,
        telemetry: spans.Telemetry,
        *,
        boot_id: str,
        checkpoint: checkpoints.Checkpoint,
        remembered: ledger.State,
        now_ns: Callable[[], int],
    ) -> None:
        node = settings.node_name
        self._ledger: state.StateWriter[Ledger] = state.StateWriter(
            bus, table.bucket("ledger"), node
        )
        self._facts = logs.FactWriter(bus, node)
        self._spans = logs.SpanWriter(bus, node, SERVICE)
        telemetry.sink = self._spans.add
        self._checkpoint = checkpoint
        self._endpoints = endpoints_.Endpoints(self._endpoint)
        self._folder = folders.Folder(settings.device_plugins_dir, self._endpoints.wake)
        self._keeper = keepers.Keeper(
            remembered,
            checkpoint,
            keepers.Outlets(
                publish=self._ledger.put,
                tell=self._facts.publish,
                show=self._endpoints.show,
                delivered=self._endpoints.delivered,
                held=held.HeldFile(settings.run_dir, boot_id).tell,
            ),
            stamp=bus.stamp(node),
            telemetry=telemetry,
            now_ns=now_ns,
        )
        self._pod_resources = pod_resources.PodResources(
            settings.pod_resources_socket,
            self._keeper.listed,
            lambda: ledger.doubtful(self._keeper.state) or self._keeper.standing.emptying,
            now_ns=now_ns,
            period_s=settings.list_period_s,
        )
        self._sources = sources.Sources(
            settings.run_dir / "inventory.json",
            boot_id,
            self._keeper.inventory,
            lambda: bus.connected,
        )
        self._desk = desks.Desk(self._keeper, telemetry, self._pod_resources.soon, settings.on_host)
        self._telemetry = telemetry
        self._inventory_reader: state.StateReader[Inventory] = state.StateReader(
            bus, table.bucket("inventory"), node, self._sources.heard
        )
        self._holds: latest.Latest[Hold] = latest.Latest()
        self._hold_reader: state.StateReader[Hold] = state.StateReader(
            bus, table.bucket("hold"), node, lambda received: self._holds.put(received.value)
        )
        self._show(bus)

    def _show(self, bus: Bus) -> None:
        """Let meters see how it stands; a reading may come at any moment, so all parts are made."""
        writers: dict[str, bus_measures.Writer] = {"facts": self._facts, "spans": self._spans}
        show = self._telemetry.meters.show
        show(lambda: measures.samples(self._keeper.published))
        show(lambda: bus_measures.samples(bus, writers))

    async def _follow_holds(self) -> None:
        """Take holds in, for ever; that pods have gone is to be seen soon, for a change waits.

        A hold ends when the agent has seen an inventory without the devices that are gone. The
        file has it by then; what we have heard may be older, and would offer them again.
        """
        while True:
            hold = await self._holds.get()
            await self._sources.look()
            self._keeper.hold(hold)
            self._pod_resources.soon()

    @classmethod
    async def build(
        cls, settings: AllocatorSettings, bus: Bus, telemetry: spans.Telemetry
    ) -> Allocator:
        """Remember what the last process knew, then see what the advertiser says."""
        boot_id = await asyncio.to_thread(boot.boot_id, settings.boot_id_path)
        now_ns = steady_clock()
        checkpoint = checkpoints.Checkpoint(settings.state_dir / "ledger.json", boot_id)
        allocator = cls(
            settings,
            bus,
            telemetry,
            boot_id=boot_id,
            checkpoint=checkpoint,
            remembered=await checkpoint.load(now_ns()),
            now_ns=now_ns,
        )
        await allocator._sources.look()
        return allocator

    async def run(self, lock: locks.ServingLock) -> None:
        """Serve until cancelled, then hand over to a successor that waits."""
        serving = {
            "folder": self._folder.run(),
            "checkpoint": self._checkpoint.run(),
            "endpoints": self._endpoints.run(),
            "keeper": self._keeper.run(),
        }
        telling = {
            "read inventory": self._inventory_reader.run(),
            "read hold": self._hold_reader.run(),
            "follow holds": self._follow_holds(),
            "write ledger": self._ledger.run(),
            "write facts": self._facts.run(),
            "write spans": self._spans.run(),
            "inventory sources": self._sources.run(),
            "pod-resources": self._pod_resources.run(),
        }
        async with asyncio.TaskGroup() as tasks:
            for name, work in serving.items():
                tasks.create_task(work, name=name)
            told = [tasks.create_task(work, name=name) for name, work in telling.items()]
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                # Two writers of one ledger would take turns; the kubelet we go on answering.
                for task in told:
                    task.cancel()
                await handover.hand_over(lock, self._folder, self._endpoints)
                raise

    def _endpoint(self, resource: str) -> endpoint_.Endpoint:
        plugin = plugins.Plugin(resource, self._desk, self._telemetry, self._endpoints.wake)
        return endpoint_.Endpoint(
            plugin, self._folder, self._keeper, self._pod_resources.allocatable
        )
