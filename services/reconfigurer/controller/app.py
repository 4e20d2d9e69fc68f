"""The controller's composition: the one place that says which parts work together."""

from __future__ import annotations

import asyncio
import functools
import os
import socket
import uuid

from services.reconfigurer.controller import kube, lease, standing, term
from services.reconfigurer.controller.auth import app as auth
from services.reconfigurer.controller.settings import ControllerSettings
from shared.bus import connection, logs, measures
from shared.contract import table
from shared.telemetry import catalogue, meters, setup

ROLE = table.Role.CONTROLLER


async def serve(settings: ControllerSettings, measured: meters.Meters = meters.NOTHING) -> None:
    """Serve until cancelled: wait for the Lease, then lead. The bus may be away at any time."""
    async with (
        setup.telemetry(ROLE, "", os.environ, measured) as telemetry,
        connection.open_bus(settings.bus_url, settings.login, ROLE) as bus,
        kube.connect(settings.api_url, settings.kube_config, measured) as api,
        asyncio.TaskGroup() as tasks,
    ):
        span_writer = logs.SpanWriter(bus, "", ROLE)
        telemetry.sink = span_writer.add
        tasks.create_task(span_writer.run(), name="write spans")
        process = term.Process(
            settings=settings,
            api=api,
            bus=bus,
            telemetry=telemetry,
            identity=f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}",
        )
        election = lease.Election(
            api,
            settings.namespace,
            settings.lease_name,
            process.identity,
            settings.lease_seconds,
        )
        measured.show(lambda: [catalogue.LEADER.at(election.leads)])
        measured.show(lambda: measures.samples(bus, {"spans": span_writer}))
        tasks.create_task(election.lead(functools.partial(_lead, process)), name="elect")
        if settings.bus_keys_dir is not None:
            gate = auth.serve(settings, settings.bus_keys_dir, api)
            tasks.create_task(gate, name="say who may enter the bus")


async def _lead(process: term.Process, transitions: int) -> None:
    """Work as the leader until cancelled.

    What the leader before has wanted is read first: without it a text that is bad now would take
    the last good one away. With the bus away there is nobody to tell anything, so this waits.
    """
    stores = await standing.stores(process.bus)
    inherited = await standing.intents(process.bus)
    await term.Term(process, stores[standing.INTENT.name], inherited).run(transitions)
