"""The advertiser's composition: the one place that says which parts work together."""

from __future__ import annotations

import asyncio
import os

from services.advertiser import loop, measures, mps_report
from services.advertiser.settings import AdvertiserSettings
from shared.bus import connection, logs, state
from shared.bus import measures as bus_measures
from shared.contract import table
from shared.contract.messages import Hold, Intent, Inventory
from shared.nvml import driver, threads
from shared.runtime import boot, files, locks
from shared.telemetry import meters, setup

SERVICE = table.Role.ADVERTISER


async def serve(settings: AdvertiserSettings, measured: meters.Meters = meters.NOTHING) -> None:
    """Serve until cancelled. A second process waits here until the first one's lock falls."""
    node = settings.node_name
    async with (
        locks.ServingLock(settings.run_dir / "advertiser.lock"),
        setup.telemetry(SERVICE, node, os.environ, measured) as telemetry,
        connection.open_bus(settings.bus_url, settings.login, SERVICE, node) as bus,
        asyncio.TaskGroup() as tasks,
    ):
        writer: state.StateWriter[Inventory] = state.StateWriter(
            bus, table.bucket("inventory"), node
        )
        facts = logs.FactWriter(bus, node)
        spans = logs.SpanWriter(bus, node, SERVICE)
        telemetry.sink = spans.add
        advertiser = loop.Loop(
            threads.Nvml(driver.PynvmlDriver(), deadline_s=settings.call_deadline_s),
            loop.Outlets(
                file=files.Store(settings.run_dir / "inventory.json", kind="inventory"),
                mps=mps_report.Reader(settings.run_dir).read,
                publish=writer.put,
                tell=facts.publish,
            ),
            telemetry,
            stamp=bus.stamp(node),
            boot_id=await asyncio.to_thread(boot.boot_id, settings.boot_id_path),
            look_period_s=settings.look_period_s,
            proc=settings.proc_root,
        )
        writers = {"facts": facts, "spans": spans}
        telemetry.meters.show(lambda: measures.samples(advertiser.published))
        telemetry.meters.show(lambda: bus_measures.samples(bus, writers))
        reader: state.StateReader[Intent] = state.StateReader(
            bus, table.bucket("intent"), node, advertiser.on_intent
        )
        holds: state.StateReader[Hold] = state.StateReader(
            bus, table.bucket("hold"), node, advertiser.on_hold
        )
        for work, name in (
            (reader.run(), "read intent"),
            (holds.run(), "read hold"),
            (writer.run(), "write inventory"),
            (facts.run(), "write facts"),
            (spans.run(), "write spans"),
            (advertiser.run(), "advertise"),
        ):
            tasks.create_task(work, name=name)
