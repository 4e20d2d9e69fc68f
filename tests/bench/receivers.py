"""Allocate while nobody takes what telemetry sends, against Allocate without any telemetry.

Allocators on a node each: two without telemetry, one whose OTLP receiver refuses connections, one
whose receiver takes them and never answers; the latter two show metrics as well. They are called in
many short turns, and a ratio is the median of those of the turns. The ratio of the second without
telemetry to the first says how much of a ratio is the machine's.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import pathlib
import tempfile
from collections.abc import AsyncIterator, Mapping

from shared.kubelet import sockets
from shared.kubelet.v1beta1 import api_grpc, api_pb2
from tests.bench import calls
from tests.bench.figures import Figure, percentile
from tests.integration.allocator.rig import Rig, rig
from tests.support import hardware, scraping, slots
from tests.support.eventually import eventually

ROUNDS, CALLS = 21, 60
GPUS, REPLICAS = 8, 10
WITHOUT, AGAIN = "no telemetry", "no telemetry either"
REFUSES, HANGS = "OTLP refused, metrics on", "OTLP hangs, metrics on"


async def measure() -> Mapping[str, Figure]:
    """The figures of all three, and how the latter two stand to the first."""
    async with contextlib.AsyncExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sw")))
        variables: dict[str, dict[str, str]] = {
            WITHOUT: {},
            AGAIN: {},
            REFUSES: _sending(f"http://127.0.0.1:{scraping.free_port()}"),
            HANGS: _sending(await stack.enter_async_context(_silent())),
        }
        allocate = {
            name: await stack.enter_async_context(_allocator(folder / str(number), given))
            for number, (name, given) in enumerate(variables.items())
        }
        medians: dict[str, list[float]] = {name: [] for name in variables}
        for _ in range(ROUNDS):
            for name, call in allocate.items():
                medians[name].append(percentile(await calls.latencies(call, CALLS), 0.5))
    return {
        f"allocate 1, {name}, p50": Figure(
            value=round(percentile(turns, 0.5) * 1e6),
            unit="us",
            ratio=None if name == WITHOUT else _ratio(turns, medians[WITHOUT]),
            against=None if name == WITHOUT else "the same call of the first, without telemetry",
        )
        for name, turns in medians.items()
    }


def _ratio(turns: list[float], reference: list[float]) -> float:
    pairs = zip(turns, reference, strict=True)
    return round(percentile([mine / theirs for mine, theirs in pairs], 0.5), 2)


def _sending(address: str) -> dict[str, str]:
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": address,
        "OTEL_METRIC_EXPORT_INTERVAL": "5000",
        "SLICEWIRE_HEALTH_PORT": str(scraping.free_port()),
    }


@contextlib.asynccontextmanager
async def _allocator(root: pathlib.Path, variables: Mapping[str, str]) -> AsyncIterator[calls.Call]:
    """An allocator as a process; what is given is one Allocate call."""
    await asyncio.to_thread(root.mkdir)
    gpus = tuple(hardware.gpu(index) for index in range(GPUS))
    async with rig(root) as here:
        await here.advertise(slots.inventory(slots.time_sliced(REPLICAS), *gpus))
        process = await here.process(**variables)
        try:
            await eventually(lambda: _listed(here), within=20)
            listed = here.node.kubelet.record.lists[-1]
            async with sockets.channel(here.node.plugins / listed.endpoint) as channel:
                request = api_pb2.AllocateRequest(
                    container_requests=[
                        api_pb2.ContainerAllocateRequest(devices_ids=listed.healthy[:1])
                    ]
                )
                stub = api_grpc.DevicePluginStub(channel)
                yield functools.partial(stub.Allocate, request)
        finally:
            process.terminate()
            await process.wait()


def _listed(here: Rig) -> bool:
    lists = here.node.kubelet.record.lists
    return bool(lists) and len(lists[-1].healthy) == GPUS * REPLICAS


@contextlib.asynccontextmanager
async def _silent() -> AsyncIterator[str]:
    """The address of a receiver that takes connections and says nothing."""
    over = asyncio.Event()

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        over.set()
