"""The whole advertiser over the simulated C boundary, on the real nats-server and without it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import pathlib
from collections.abc import AsyncIterator, Iterator

import pytest

from services.advertiser import app
from services.advertiser.settings import AdvertiserSettings
from shared.bus import connection, ensure, fleet
from shared.bus.login import Login
from shared.bus.state import Received
from shared.contract import table
from shared.contract.codec import decode
from shared.contract.generation import Generation
from shared.contract.messages import Intent, Inventory
from shared.contract.table import Role
from shared.domain.gpu import HealthState
from shared.domain.health import HealthRules
from shared.runtime import files
from shared.simulation.broker import Broker
from shared.simulation.gpu.local import LocalTransport
from shared.telemetry import context
from tests.support import hardware, logged
from tests.support.eventually import eventually, steadily
from tests.support.running import running
from tests.support.simulated_nvml import simulated_nvml

NODE = "gpu-a.example"
FIRST = Generation(1, 1)
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def settings(folder: pathlib.Path, broker: Broker | None = None) -> AdvertiserSettings:
    place: dict[str, object] = {"bus_url": "nats://127.0.0.1:1"}
    if broker:
        user, password = broker.credentials(Role.ADVERTISER, NODE)
        place = {"bus_url": broker.url, "bus_user": user, "bus_password_file": password}
    return AdvertiserSettings.model_validate(
        {
            "node_name": NODE,
            "run_dir": folder,
            "state_dir": folder / "state",
            "look_period_s": 0.05,
            **place,
        }
    )


async def in_file(folder: pathlib.Path) -> Inventory | None:
    saved = await files.Store(folder / "inventory.json", kind="inventory").read()
    return decode(Inventory, saved.payload) if saved else None


@contextlib.asynccontextmanager
async def controller(
    broker: Broker,
) -> AsyncIterator[tuple[fleet.FleetWriter[Intent], list[Received[Inventory]]]]:
    """A controller's hands on the bus: it writes intents and hears inventories."""
    user, password = broker.credentials(Role.CONTROLLER)
    heard: list[Received[Inventory]] = []
    async with connection.open_bus(broker.url, Login(user, password), Role.CONTROLLER) as bus:
        await ensure.ensure_streams(bus)
        writer: fleet.FleetWriter[Intent] = fleet.FleetWriter(bus, table.bucket("intent"))
        reader: fleet.FleetReader[Inventory] = fleet.FleetReader(
            bus, table.bucket("inventory"), lambda _, received: heard.append(received)
        )
        async with running(writer.run(), reader.run()):
            yield writer, heard


@pytest.fixture
def nvml() -> Iterator[LocalTransport]:
    """Two GPUs that can be broken and healed."""
    with simulated_nvml("a100-80gb", "a100-80gb", node=NODE) as transport:
        yield transport


@pytest.fixture
async def broker(tmp_path: pathlib.Path) -> AsyncIterator[Broker]:
    """A running nats-server that knows the node."""
    broker = Broker(tmp_path / "bus", [NODE])
    await broker.start()
    yield broker
    await broker.stop()


@pytest.mark.usefixtures("nvml")
async def test_an_intent_becomes_an_inventory_in_the_same_trace(
    tmp_path: pathlib.Path, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """And a line says so."""
    logged.everything(caplog)
    async with (
        controller(broker) as (writer, heard),
        running(app.serve(settings(tmp_path, broker))),
    ):
        writer.put(NODE, hardware.intent(hardware.time_sliced(4), FIRST, NODE), TRACEPARENT)
        await eventually(lambda: heard and heard[-1].value.shares)
        received = heard[-1]
        assert [share.replicas for share in received.value.shares] == [4, 4]
        assert received.value.stamp.generation == FIRST
        assert context.trace_id(received.traceparent) == context.trace_id(TRACEPARENT)
        assert received.value.traceparent == received.traceparent
        line = logged.lines(caplog, "inventory: 2 GPUs; offered: 8 x nvidia.com/gpu")[-1]
        assert (line.level, line.about["generation"]) == ("info", FIRST)
        assert line.about["trace"] == context.trace_id(TRACEPARENT)


@pytest.mark.usefixtures("nvml")
async def test_a_restart_says_again_what_an_emptied_bus_has_forgotten(
    tmp_path: pathlib.Path, broker: Broker
) -> None:
    """Nothing has changed since, and nobody says what is wanted: a new leader waits for it."""
    async with (
        controller(broker) as (writer, heard),
        running(app.serve(settings(tmp_path, broker))),
    ):
        writer.put(NODE, hardware.intent(hardware.time_sliced(4), FIRST, NODE), TRACEPARENT)
        await eventually(lambda: heard and heard[-1].value.shares)
    await broker.restart(lose_store=True)
    async with controller(broker) as (_, heard), running(app.serve(settings(tmp_path, broker))):
        await eventually(lambda: heard)
        assert [share.replicas for share in heard[-1].value.shares] == [4, 4]


async def healths(folder: pathlib.Path) -> list[HealthState]:
    content = await in_file(folder)
    return [gpu.health.state for gpu in content.gpus] if content else []


async def test_a_lost_gpu_is_withdrawn_in_the_file_with_the_bus_away_and_comes_back(
    tmp_path: pathlib.Path, nvml: LocalTransport, caplog: pytest.LogCaptureFixture
) -> None:
    """That it is lost is a warning, that it is back is not."""
    logged.everything(caplog)

    async def are(*wanted: HealthState) -> bool:
        return await healths(tmp_path) == list(wanted)

    async with running(app.serve(settings(tmp_path))):
        await eventually(lambda: are(HealthState.HEALTHY, HealthState.HEALTHY))
        await asyncio.to_thread(nvml.fault, {"gpu": 1, "lost": True})
        await eventually(lambda: are(HealthState.HEALTHY, HealthState.LOST), within=1)
        await asyncio.to_thread(nvml.heal, {"gpu": 1, "lost": True})
        await eventually(lambda: are(HealthState.HEALTHY, HealthState.HEALTHY))
    (lost,) = logged.lines(caplog, " is lost")
    (back,) = logged.lines(caplog, " is healthy")
    assert (lost.level, back.level) == ("warning", "info")


async def test_u047_a_fatal_xid_makes_one_gpu_sick_and_a_restart_does_not_forget_it(
    tmp_path: pathlib.Path, nvml: LocalTransport
) -> None:
    async def sick() -> bool:
        return await healths(tmp_path) == [HealthState.HEALTHY, HealthState.SICK]

    async with running(app.serve(settings(tmp_path))):
        await eventually(lambda: healths(tmp_path))
        await asyncio.to_thread(nvml.fault, {"gpu": 1, "xid": 48})
        await eventually(sick)
    await asyncio.to_thread(nvml.fault, {"gpu": 0, "lost": True})  # something for the next process
    async with running(app.serve(settings(tmp_path))):

        async def both() -> bool:
            return await healths(tmp_path) == [HealthState.LOST, HealthState.SICK]

        await eventually(both)


async def test_u047_a_gpu_with_an_xid_is_served_again_by_itself_and_a_flapper_when_cleared(
    tmp_path: pathlib.Path, nvml: LocalTransport, broker: Broker
) -> None:
    """What the intent says of health and of clearing is followed; a restart changes nothing."""
    rules = HealthRules(recover_after_s=1)
    sharing = dataclasses.replace(hardware.time_sliced(4), health=rules)
    wanted = hardware.intent(sharing, FIRST, NODE)

    async def sick() -> bool:
        return await healths(tmp_path) == [HealthState.SICK, HealthState.HEALTHY]

    async def well() -> bool:
        return await healths(tmp_path) == [HealthState.HEALTHY, HealthState.HEALTHY]

    async with controller(broker) as (writer, heard):
        async with running(app.serve(settings(tmp_path, broker))):
            writer.put(NODE, wanted, TRACEPARENT)
            await eventually(lambda: heard and heard[-1].value.health.rules == rules)
            for _ in range(2):
                await asyncio.to_thread(nvml.fault, {"gpu": 0, "xid": 94})
                await eventually(sick)
                await eventually(well)
            await asyncio.to_thread(nvml.fault, {"gpu": 0, "xid": 94})
            await eventually(sick)
        async with running(app.serve(settings(tmp_path, broker))):
            await asyncio.sleep(2)  # twice as long as it would take otherwise
            assert await sick()
            stamp = dataclasses.replace(wanted.stamp, generation=FIRST.next())
            cleared = dataclasses.replace(wanted, stamp=stamp, clear_health="seen to")
            writer.put(NODE, cleared, TRACEPARENT)
            await eventually(well)


async def test_an_xid_is_told_where_nvml_can_no_longer_count_the_gpus(
    tmp_path: pathlib.Path, nvml: LocalTransport
) -> None:
    """As when a GPU falls off the bus; the others are served again when NVML answers."""
    counting = {"nvml": {"call": "nvmlDeviceGetCount_v2", "delay": "never"}}
    impatient = settings(tmp_path).model_copy(update={"call_deadline_s": 0.3})

    async def are(*wanted: HealthState) -> bool:
        content = await in_file(tmp_path)
        told = content is not None and content.gpus[0].health.xid == 79
        return told and await healths(tmp_path) == list(wanted)

    async with running(app.serve(impatient)):
        await eventually(lambda: healths(tmp_path))
        await asyncio.to_thread(nvml.fault, counting)
        await asyncio.to_thread(nvml.fault, {"gpu": 0, "xid": 79})
        await eventually(lambda: are(HealthState.SILENT, HealthState.SILENT))
        await asyncio.to_thread(nvml.heal, counting)
        await eventually(lambda: are(HealthState.LOST, HealthState.HEALTHY))


@pytest.mark.usefixtures("nvml")
async def test_u027_a_node_that_boots_without_the_bus_offers_what_it_offered_last(
    tmp_path: pathlib.Path, broker: Broker
) -> None:
    """/run is empty and nobody says what is wanted: the copy on the disk does."""
    async with controller(broker) as (writer, _), running(app.serve(settings(tmp_path, broker))):
        writer.put(NODE, hardware.intent(hardware.time_sliced(4), FIRST, NODE), TRACEPARENT)
        await eventually((tmp_path / "state" / "inventory.json").exists)
        await eventually(lambda: offers(tmp_path / "state", 4))
    (tmp_path / "inventory.json").unlink()
    await asyncio.to_thread((tmp_path / "boot_id").write_text, "another boot", "ascii")
    booted = settings(tmp_path).model_copy(update={"boot_id_path": str(tmp_path / "boot_id")})
    async with running(app.serve(booted)):
        await eventually(lambda: offers(tmp_path, 4))


async def offers(folder: pathlib.Path, replicas: int) -> bool:
    content = await in_file(folder)
    return content is not None and [each.replicas for each in content.shares] == [replicas] * 2


@pytest.mark.usefixtures("nvml")
async def test_hardware_that_does_not_change_is_published_once(
    tmp_path: pathlib.Path, broker: Broker
) -> None:
    async with controller(broker) as (_, heard), running(app.serve(settings(tmp_path, broker))):
        await eventually(lambda: heard)
        await steadily(lambda: len(heard) == 1, for_=0.5)  # ten looks
