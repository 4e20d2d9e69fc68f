"""The story of `make observe`, played once before Prometheus and a collector.

Prometheus keeps what it has scraped, so tests ask it afterwards, as of the end of each part.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from services.rehearsal import engine, language
from services.rehearsal.embedded import cluster as clusters
from services.rehearsal.embedded.playing import Embedded
from services.rehearsal.story import Say, Step
from shared.runtime import clock
from tests.chart.test_alerts import RULES
from tests.observe import backends, dcgm
from tests.observe.backends import Collector, Prometheus

STORY = pathlib.Path(__file__).with_name("story.yaml")
PATIENCE_S, LOOK_S = 60.0, 0.3
SETTLE_S = 2.5  # two scrapes more, so that what is asked for at once has come from one look
LAST_WITH_COLLECTOR = "refused"
STRANGER_COMES = "waiting"  # a process that no pod has, on a GPU that pods share
SHARED_GPU = "GPU-aaaaaaaa-0000-4000-8000-000000000000"

# What Prometheus has to know before a part counts as over: services look now and then, not at once.
SEEN = {
    "idle": ('sum(slicewire_slots{state="free"}) == 12', "sum(slicewire_leader) == 1"),
    "held": (
        'sum(slicewire_slots{state="held"}) == 5',
        "count(slicewire_pod_gpu_memory_used_bytes > 0) == 4",
        "sum(slicewire_waiting_pods) == 0",
        "(sum(slicewire_waiting_slots) or vector(0)) == 0",
    ),
    "waiting": (
        "sum(slicewire_waiting_pods) == 2",
        "sum(slicewire_waiting_slots) > 0",
        "sum(slicewire_unaccounted_gpu_processes) == 1",
    ),
    "sick": ("sum(slicewire_gpu_healthy == bool 0) == 1", "sum(slicewire_gpu_xids_total) == 1"),
    "changed": (
        'sum(slicewire_evictions_total{outcome="evicted"}) == 1',
        'sum(slicewire_reconfiguration_duration_seconds_count{kind="mig",outcome="success"}) == 1',
        "count(slicewire_mig_instance_info) == 5",
    ),
    "refused": ("sum(slicewire_config_refused) == 1", 'sum(slicewire_nodes{state="failed"}) == 1'),
    "cut": ("max(slicewire_bus_connected) == 0", 'sum(slicewire_slots{state="held"}) == 5'),
    "back": (
        "min(slicewire_bus_connected) == 1",
        "sum(slicewire_leader) == 1",
        "sum(slicewire_bus_reconnects_total) >= 6",
        "sum(slicewire_watch_restarts_total) > 0",
        'sum(slicewire_dropped_total{what="otlp"}) > 0',
        'sum(slicewire_slots{state="held"}) == 4',
    ),
}


@dataclass(frozen=True)
class Recording:
    """What was recorded.

    Attributes:
        moments: the end of each part of the story (Unix seconds).
        missed: of each part what Prometheus should have seen and did not.
        shown: the page of metrics of each service, as it was before the collector ended.
    """

    prometheus: Prometheus
    collector: Collector
    moments: dict[str, float] = field(default_factory=dict)
    missed: dict[str, list[str]] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def recorded(folder: pathlib.Path, zipkin: str = "") -> Iterator[Recording]:
    """Play the story; in the block Prometheus still answers, and the rehearsal has ended."""
    targets = folder / "targets.json"
    with contextlib.ExitStack() as stack:
        exporter = stack.enter_context(dcgm.exporter())
        prometheus = stack.enter_context(
            backends.prometheus(folder, targets, RULES, exporter.address)
        )
        collector = stack.enter_context(backends.collector(folder, zipkin))
        environment = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in collector.environment.items():
            environment.setenv(name, value)
        recording = Recording(prometheus, collector)
        asyncio.run(_play(recording, exporter, targets))
        yield recording


async def _play(recording: Recording, exporter: dcgm.Exporter, targets: pathlib.Path) -> None:
    text = await asyncio.to_thread(STORY.read_text, encoding="utf-8")
    story = language.read(text, STORY.name)
    async with clusters.opened(story, targets) as cluster:
        for name, steps in parts(story.steps):
            part = replace(story, steps=steps)
            outcome = await engine.play(part, Embedded(cluster), lambda _result: None)
            assert outcome.ok, (name, outcome.form()["steps"][-1], cluster.folder)
            if name == STRANGER_COMES:
                hardware = cluster.nodes["gpu-a"].hardware
                await hardware.start_process(SHARED_GPU, 51_000, "miner", 300, sm_percent=20)
            exporter.text = dcgm.exposition(cluster.book)
            recording.missed[name] = await _missed(recording.prometheus, SEEN[name])
            recording.moments[name] = clock.now_ns() / 1e9
            if name == LAST_WITH_COLLECTOR:
                recording.shown.update(await asyncio.to_thread(_pages, targets))
                await asyncio.to_thread(recording.collector.end)
        cluster.keep = False


def _pages(targets: pathlib.Path) -> dict[str, str]:
    """What each service shows, by its pod's name."""
    found = {}
    for group in json.loads(targets.read_text(encoding="utf-8")):
        (address,) = group["targets"]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=20) as answer:
            found[group["labels"]["pod"]] = answer.read().decode()
    return found


async def _missed(prometheus: Prometheus, conditions: Sequence[str]) -> list[str]:
    """Wait until Prometheus says that all is so; return what is not, after a while."""
    end = clock.loop_time() + PATIENCE_S
    left = list(conditions)
    while left and clock.loop_time() < end:
        await clock.sleep(LOOK_S)
        now = clock.now_ns() / 1e9
        left = [each for each in left if not await asyncio.to_thread(prometheus.query, each, now)]
    await clock.sleep(SETTLE_S)
    return left


def parts(steps: Sequence[Step]) -> Iterator[tuple[str, tuple[Step, ...]]]:
    """The steps below each heading, under its first word."""
    name, below = "", list[Step]()
    for step in steps:
        if isinstance(step.action, Say):
            if below:
                yield name, tuple(below)
            name, below = step.action.text.partition(":")[0], []
        below.append(step)
    yield name, tuple(below)
