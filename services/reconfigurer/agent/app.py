"""The agent's composition: the one place that says which parts work together."""

from __future__ import annotations

import asyncio
import os

from services.reconfigurer.agent import executor, journal, looking, loop, measures, reboot
from services.reconfigurer.agent.memory import Memory
from services.reconfigurer.agent.settings import AgentSettings
from services.reconfigurer.agent.view import SECOND, Limits
from shared.bus import connection, logs, state
from shared.bus import measures as bus_measures
from shared.contract import codec, table
from shared.contract.messages import Hold, Intent, Inventory, Ledger, Progress
from shared.nvml import changes, driver, reset, threads, writing
from shared.runtime import boot, locks
from shared.telemetry import meters, setup, spans

SERVICE = table.Role.AGENT
LISTEN_S = 0.1  # the agent hears no XIDs, and NVML is let go within this time


async def serve(settings: AgentSettings, measured: meters.Meters = meters.NOTHING) -> None:
    """Serve until cancelled. A second process waits here until the first one's lock falls."""
    node = settings.node_name
    async with (
        locks.ServingLock(settings.run_dir / "agent.lock"),
        setup.telemetry(SERVICE, node, os.environ, measured) as telemetry,
        connection.open_bus(settings.bus_url, settings.login, SERVICE, node) as bus,
        asyncio.TaskGroup() as tasks,
    ):
        sent = logs.SpanWriter(bus, node, SERVICE)
        telemetry.sink = sent.add
        progress: state.StateWriter[Progress] = state.StateWriter(
            bus, table.bucket("progress"), node
        )
        hold: state.StateWriter[Hold] = state.StateWriter(bus, table.bucket("hold"), node)
        agent = await _agent(settings, bus, telemetry, hold, progress)
        telemetry.meters.show(lambda: measures.samples(agent.said))
        telemetry.meters.show(lambda: bus_measures.samples(bus, {"spans": sent}))
        intents: state.StateReader[Intent] = state.StateReader(
            bus, table.bucket("intent"), node, agent.on_intent
        )
        inventories: state.StateReader[Inventory] = state.StateReader(
            bus, table.bucket("inventory"), node, agent.on_inventory
        )
        ledgers: state.StateReader[Ledger] = state.StateReader(
            bus, table.bucket("ledger"), node, agent.on_ledger
        )
        for work, name in (
            (intents.run(), "read intent"),
            (inventories.run(), "read inventory"),
            (ledgers.run(), "read ledger"),
            (hold.run(), "write hold"),
            (progress.run(), "write progress"),
            (sent.run(), "write spans"),
            (agent.run(), "change layouts"),
        ):
            tasks.create_task(work, name=name)


async def _agent(
    settings: AgentSettings,
    bus: connection.Bus,
    telemetry: spans.Telemetry,
    hold: state.StateWriter[Hold],
    progress: state.StateWriter[Progress],
) -> loop.Loop:
    nvml = threads.Nvml(driver.PynvmlDriver(), listen_s=LISTEN_S)
    hands = changes.Changes(nvml, writing.PynvmlWriter(), deadline_s=settings.write_deadline_s)
    eye = looking.Eye(nvml, hands)
    boot_id = await asyncio.to_thread(boot.boot_id, settings.boot_id_path)
    await asyncio.to_thread(codec.prepare, (Memory,))
    return loop.Loop(
        loop.Parts(
            store=journal.Journal(settings.state_dir / "agent-journal.json", boot_id),
            hardware=eye,
            worker=executor.Executor(
                eye, hands, telemetry, reset=reset.reset, proc=settings.proc_root
            ),
            hold=hold.put,
            progress=progress.put,
            reboot=reboot.Rebooter(settings.reboot_command, settings.reboot_grace_s, telemetry),
        ),
        telemetry,
        stamp=bus.stamp(settings.node_name),
        limits=Limits(
            hold_ns=int(settings.hold_limit_s * SECOND),
            first_retry_ns=int(settings.retry_first_s * SECOND),
            longest_retry_ns=int(settings.retry_most_s * SECOND),
        ),
    )
