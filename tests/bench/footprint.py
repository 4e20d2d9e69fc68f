"""What the services take while nothing happens: memory, processor time, time to import."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping

import psutil

from services.rehearsal.embedded.cluster import Cluster
from services.rehearsal.story import Service
from tests.bench import cluster as clusters
from tests.bench.figures import Figure

IDLE_S = 30.0
NODE_SERVICES = (Service.ADVERTISER, Service.ALLOCATOR, Service.AGENT)
MODULES = {
    "advertiser": "services.advertiser.app",
    "allocator": "services.allocator.app",
    "agent": "services.reconfigurer.agent.app",
    "controller": "services.reconfigurer.controller.app",
}
MEASURED = """
import psutil, {module}
from shared.contract.table import Role
from shared.telemetry import setup
measured = setup.service_meters(Role("{role}"), "node-a", {{}}, exposed={exposed})
for page in measured.pages.values():
    page.text()
print(psutil.Process().memory_full_info().pss)
"""
PUBLISHED = "27 + 29 + 29 + about 30 MB RSS (NVIDIA's plugin, config manager, GFD, MIG manager)"


async def measure(cluster: Cluster) -> Mapping[str, Figure]:
    """Memory and idle time of all services, then the time that their imports take."""
    processes = {
        service.value: psutil.Process(cluster.process(service, clusters.NODE).pid)
        for service in NODE_SERVICES
    } | {"controller": psutil.Process(cluster.controller.pid)}
    before = {name: sum(process.cpu_times()[:2]) for name, process in processes.items()}
    await asyncio.sleep(IDLE_S)
    figures: dict[str, Figure] = {}
    for name, process in processes.items():
        idle = (sum(process.cpu_times()[:2]) - before[name]) / IDLE_S * 100
        memory = process.memory_full_info()
        figures[f"{name} PSS"] = Figure(value=_mb(memory.pss), unit="MB")
        figures[f"{name} RSS"] = Figure(value=_mb(memory.rss), unit="MB")
        figures[f"{name} idle"] = Figure(value=round(idle, 2), unit="% of a core")
        figures[f"{name} import"] = await _import_time(MODULES[name])
        figures[f"{name} metrics"] = await _metrics_memory(name)
    pss = sum(figures[f"{service.value} PSS"].value for service in NODE_SERVICES)
    figures["advertiser + allocator + agent PSS"] = Figure(
        value=round(pss, 1), unit="MB", published=PUBLISHED
    )
    return figures


async def _import_time(module: str) -> Figure:
    """Seconds of a fresh interpreter that imports a service, against one that imports nothing."""
    empty = await _run("pass")
    loaded = await _run(f"import {module}")
    return Figure(
        value=round(loaded * 1e3),
        unit="ms",
        ratio=round(loaded / empty, 1),
        against="an interpreter that imports nothing",
    )


async def _metrics_memory(name: str) -> Figure:
    """What metrics add to the PSS of a process that has loaded a service, after one scrape."""
    without, scraped = [await _loaded(name, exposed=exposed) for exposed in (False, True)]
    return Figure(
        value=_mb(scraped - without),
        unit="MB of PSS",
        ratio=round(scraped / without, 2),
        against="the same process without metrics",
    )


async def _loaded(name: str, *, exposed: bool) -> int:
    code = MEASURED.format(module=MODULES[name], role=name, exposed=exposed)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    return int(printed)


async def _run(code: str) -> float:
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
        await process.wait()
        best = min(best, time.perf_counter() - began)
    return best


def _mb(size: int) -> float:
    return round(size / 1e6, 1)
