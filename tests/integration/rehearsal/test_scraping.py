"""A rehearsal tells Prometheus where its services show their metrics."""

from __future__ import annotations

import asyncio
import functools
import json
import pathlib
from typing import Any

import aiohttp

from services.rehearsal import language
from services.rehearsal.embedded import cluster as clusters
from tests.support.eventually import eventually

STORY = """
nodes: [{name: gpu.a, gpus: [t4]}]
steps: [{say: nothing}]
"""
SHOWN = {"advertiser": "slicewire_gpu_info", "controller": "slicewire_build_info"}


async def test_every_service_shows_its_metrics_where_the_file_says(tmp_path: pathlib.Path) -> None:
    """With the labels that a PodMonitor gives; the file is whole at once."""
    file = tmp_path / "targets.json"
    async with clusters.opened(language.read(STORY, "s"), file) as cluster:
        cluster.keep = False
        groups: list[dict[str, Any]] = json.loads(await asyncio.to_thread(file.read_text))
        places = {each["labels"]["container"]: each for each in groups}
        assert set(places) == {"controller", "advertiser", "allocator", "agent"}
        assert places["agent"]["labels"]["pod"] == "slicewire-agent-gpu.a"
        async with aiohttp.ClientSession() as session:
            for service, metric in SHOWN.items():
                (address,) = places[service]["targets"]
                await eventually(functools.partial(shows, session, address, metric))


async def shows(session: aiohttp.ClientSession, address: str, metric: str) -> bool:
    """Whether a metric is on the page of a service."""
    async with session.get(f"http://{address}/metrics") as answer:
        return metric in await answer.text()


async def test_without_a_file_no_service_listens() -> None:
    """A rehearsal opens no port that nobody asked for."""
    async with clusters.opened(language.read(STORY, "s")) as cluster:
        cluster.keep = False
        lines = [
            await asyncio.to_thread(pathlib.Path(f"/proc/{each.pid}/cmdline").read_bytes)
            for each in cluster.processes
        ]
    assert not [line for line in lines if b"--health-port" in line]
