"""A real allocator, scraped while pods come and go, and while nobody takes what it sends."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import pathlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from tests.integration.allocator.rig import Rig, rig
from tests.support import scraping, slots
from tests.support.eventually import eventually
from tests.support.one_node import GPU, NAME, pod_object
from tests.support.scraping import scrape, values

X4 = slots.inventory(slots.time_sliced(4), slots.named(0, "a"))
PATIENCE_S = 20.0
STOP_S = 8.0  # of a service whose receiver hangs; it gives itself 2


@contextlib.asynccontextmanager
async def scraped(here: Rig, **variables: str) -> AsyncIterator[int]:
    """An allocator with four slots on one GPU; the port that it shows its metrics on."""
    port = scraping.free_port()
    await here.advertise(X4)
    process = await here.process(SLICEWIRE_HEALTH_PORT=str(port), **variables)
    try:
        await eventually(lambda: _allocatable(here), within=PATIENCE_S)
        yield port
    finally:
        process.terminate()
        async with asyncio.timeout(STOP_S):
            assert await process.wait() == 0


async def _allocatable(here: Rig) -> bool:
    return await here.node.counts() == (4, 4)


async def _runs(here: Rig, pod: str) -> bool:
    return await here.phases(pod) == ["Running"]


async def _start(here: Rig, *pods: str) -> None:
    for pod in pods:
        await here.node.create(pod_object(pod, {GPU: 1}))
        await eventually(functools.partial(_runs, here, pod), within=PATIENCE_S)


async def _holders(port: int) -> list[str]:
    return sorted(pod for (pod,) in values(await scrape(port), "slicewire_holder", "pod"))


async def test_u087_three_pods_on_four_slots_are_three_series_until_one_goes(
    short: pathlib.Path,
) -> None:
    """U087: one a held slot, 0 for the free one, the same at each scrape, gone with its pod."""
    async with rig(short) as here, scraped(here) as port:
        await _start(here, "p1", "p2", "p3")

        async def are(*pods: str) -> bool:
            return await _holders(port) == list(pods)

        await eventually(lambda: are("p1", "p2", "p3"), within=PATIENCE_S)
        first, second = await scrape(port), await scrape(port)
        assert first["slicewire_holder"] == second["slicewire_holder"]
        assert values(first, "slicewire_holder", "namespace", "container", "uuid", "node") == {
            ("default", "c0", "GPU-a", NAME): 1
        }
        assert len(values(first, "slicewire_holder", "slot")) == 3
        assert values(first, "slicewire_slots", "state") == {
            ("free",): 1,
            ("granted",): 0,
            ("held",): 3,
            ("lost",): 0,
            ("retiring",): 0,
            ("unhealthy",): 0,
        }
        granted = values(first, "slicewire_allocate_duration_seconds_count", "resource", "outcome")
        assert granted == {(GPU, "granted"): 3}
        assert values(first, "slicewire_registrations_total", "resource") == {(GPU,): 1}
        assert values(first, "slicewire_bus_connected") == {(): 0}
        await here.node.delete("p2")
        await eventually(lambda: are("p1", "p3"), within=PATIENCE_S)


@dataclass
class Receiver:
    """A receiver of OTLP that is no good; `asked` counts connections that it took."""

    address: str
    asked: int = 0


@contextlib.asynccontextmanager
async def _receiver(kind: str) -> AsyncIterator[Receiver]:
    """One that refuses connections, or takes them and is silent."""
    if kind == "refuses":
        yield Receiver(f"http://127.0.0.1:{scraping.free_port()}")
        return
    over = asyncio.Event()

    async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        receiver.asked += 1
        await over.wait()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    receiver = Receiver(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    async with server:
        yield receiver
        over.set()


@pytest.mark.parametrize("kind", ["refuses", "hangs"])
async def test_a_receiver_that_is_down_costs_entries_and_they_are_counted(
    kind: str, short: pathlib.Path
) -> None:
    """Pods are admitted, scrapes are answered, and the loss is told."""
    async with rig(short) as here, _receiver(kind) as receiver:
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.address,
            "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
            "OTEL_METRIC_EXPORT_INTERVAL": "200",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        async with scraped(here, **variables) as port:
            await _start(here, "p1", "p2")

            async def lost() -> bool:
                dropped = values(await scrape(port), "slicewire_dropped_total", "what")
                return dropped.get(("otlp",), 0) > 2

            await eventually(lost, within=PATIENCE_S)
            await _start(here, "p3")
            await eventually(lambda: _three(port), within=PATIENCE_S)
            assert ("otlp",) in values(await scrape(port), "slicewire_queue_depth", "queue")


async def test_a_planned_stop_waits_for_no_receiver_that_hangs(short: pathlib.Path) -> None:
    """With the standard deadline of 10 s, and spans and readings on their way."""
    async with rig(short) as here, _receiver("hangs") as receiver:
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.address,
            "OTEL_METRIC_EXPORT_INTERVAL": "200",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        async with scraped(here, **variables):
            await _start(here, "p1")
            await eventually(lambda: receiver.asked >= 2, within=PATIENCE_S)


async def _three(port: int) -> bool:
    return await _holders(port) == ["p1", "p2", "p3"]


async def test_without_metrics_the_port_only_says_that_it_lives(short: pathlib.Path) -> None:
    async with rig(short) as here, scraped(here, SLICEWIRE_METRICS="false") as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 404 ")
        writer.close()
        await writer.wait_closed()
