"""The advertiser's composition: the one place that says which parts work together."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any

from services.advertiser import loop, measures, mps_report, record, sampling
from services.advertiser.settings import AdvertiserSettings
from shared.bus import connection, logs, state
from shared.bus import measures as bus_measures
from shared.contract import table
from shared.contract.facts import Fact
from shared.contract.messages import Hold, Intent, Inventory, Ledger
from shared.contract.usage import Usage
from shared.nvml import driver, threads
from shared.nvml import sampling as nvml_sampling
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
        nvml = threads.Nvml(driver.PynvmlDriver(), deadline_s=settings.call_deadline_s)
        advertiser = loop.Loop(
            nvml,
            loop.Outlets(
                record=record.Record(
                    files.Store(settings.run_dir / "inventory.json", kind="inventory"),
                    files.Store(settings.state_dir / "inventory.json", kind="inventory"),
                    await asyncio.to_thread(boot.boot_id, settings.boot_id_path),
                ),
                mps=mps_report.Reader(settings.run_dir).read,
                publish=writer.put,
                tell=facts.publish,
            ),
            telemetry,
            stamp=bus.stamp(node),
            look_period_s=settings.look_period_s,
            proc=settings.proc_root,
        )
        writers: dict[str, bus_measures.Writer] = {"facts": facts, "spans": spans}
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
            *_uses(settings, bus, nvml, advertiser, tell=facts.publish, shown=telemetry.meters),
        ):
            tasks.create_task(work, name=name)


def _uses(
    settings: AdvertiserSettings,
    bus: connection.Bus,
    nvml: threads.Nvml,
    advertiser: loop.Loop,
    *,
    tell: Callable[[Fact, str], None],
    shown: meters.Meters,
) -> list[tuple[Coroutine[Any, Any, None], str]]:
    """What looks at who uses the GPUs, where anything is to."""
    if not settings.usage_period_s:
        return []
    node = settings.node_name
    writer: state.StateWriter[Usage] = state.StateWriter(bus, table.bucket("usage"), node)
    looks = sampling.Sampling(
        nvml,
        nvml_sampling.PynvmlSampler(),
        sampling.Node(
            proc=settings.proc_root,
            log_links=settings.log_links,
            deadline_s=settings.call_deadline_s,
            pid=os.getpid(),
        ),
        lambda: advertiser.published,
        publish=writer.put,
        tell=tell,
        stamp=bus.stamp(node),
        period_s=settings.usage_period_s,
    )
    shown.show(looks.samples)
    reader: state.StateReader[Ledger] = state.StateReader(
        bus, table.bucket("ledger"), node, looks.on_ledger
    )
    return [
        (reader.run(), "read ledger"),
        (writer.run(), "write usage"),
        (looks.run(), "look at use"),
    ]
