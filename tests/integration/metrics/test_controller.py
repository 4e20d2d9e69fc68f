"""The whole controller: what it counts while it changes a node, refuses a text, loses a watch."""

from __future__ import annotations

import asyncio
import pathlib

from services.reconfigurer.controller import feeds, kube, watch
from shared.contract import names
from shared.domain.slots import slot_id
from shared.simulation.kube.apiserver import faults
from shared.telemetry import catalogue
from shared.telemetry.catalogue import Instrument
from tests.integration.controller import changing, cluster
from tests.integration.controller import whole as parts
from tests.integration.controller.test_watch import Seen
from tests.integration.controller.whole import CONFIG_LABEL, NODE, text
from tests.support.changing_node import GOES
from tests.support.eventually import eventually
from tests.support.measured import Remembering

WITHIN = 20.0


def shown(told: Remembering, instrument: Instrument) -> dict[tuple[str, ...], float]:
    """What a scrape would show of a gauge now, by the values of its labels."""
    samples = [sample for source in tuple(told.sources) for sample in source()]
    return {
        tuple(sample.labels.values()): sample.value
        for sample in samples
        if sample.instrument is instrument
    }


async def test_a_change_of_layout_counts_its_eviction_and_its_time(tmp_path: pathlib.Path) -> None:
    told = Remembering()
    async with parts.running(tmp_path) as whole, changing.running(whole) as node:
        node.add_pod("b", slot_id(GOES, 0))
        whole.start(told)
        await changing.label(whole, "all-balanced")
        await eventually(lambda: node.state == "success", within=WITHIN)
        name = catalogue.RECONFIGURATION_DURATION.exposed
        series = (name, (("kind", "mig"), ("outcome", "success")))
        await eventually(lambda: series in told.times, within=WITHIN)
        assert len(told.times[series]) == 1
        assert told.times[series][0] > 0
        assert told.counted(catalogue.EVICTIONS, outcome="evicted") == 1
        assert told.counted(catalogue.API_REQUESTS, verb="patch", outcome="ok") >= 1
        assert told.counted(catalogue.API_REQUESTS, verb="watch", outcome="ok") >= 3
        assert shown(told, catalogue.LEADER) == {(): 1}
        assert shown(told, catalogue.NODES) == {
            ("failed",): 0,
            ("silent",): 0,
            ("changing",): 0,
            ("ready",): 1,
        }


async def test_a_refused_text_is_counted_and_its_node_named(tmp_path: pathlib.Path) -> None:
    """Until a good one comes; another leader counts anew."""
    told = Remembering()
    async with parts.running(tmp_path) as whole:
        whole.at.add_node(NODE, {CONFIG_LABEL: "any"})
        await whole.config({"any": text(8)})
        leader = whole.start(told)
        await eventually(lambda: whole.replicas() == 8, within=WITHIN)
        assert shown(told, catalogue.CONFIG_REFUSED) == {}
        await whole.config({"any": parts.BAD})
        await eventually(
            lambda: shown(told, catalogue.CONFIG_REFUSED) == {(NODE,): 1}, within=WITHIN
        )
        assert told.counted(catalogue.REFUSALS, reason=names.CONFIG_REFUSED) == 1
        await whole.config({"any": text(4)})
        await eventually(lambda: not shown(told, catalogue.CONFIG_REFUSED), within=WITHIN)
        leader.cancel()
        await asyncio.wait([leader])
        assert shown(told, catalogue.NODES) == {}, "a leader's nodes ended with its term"


async def test_refusals_and_absences_of_the_api_server_are_counted_apart() -> None:
    told, refusals = Remembering(), [faults.Refuse(503), faults.Refuse(500)]

    async def fault(call: faults.Call) -> faults.Fault | None:
        return refusals.pop() if call.path == feeds.NODES.path and refusals else None

    async with cluster.running(fault=fault) as at, kube.connect(at.url, "", told) as api:
        seen = Seen()
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(watch.follow(api, feeds.NODES, seen, lambda: 0.0))
            await eventually(lambda: seen.lists and at.server.watches, within=WITHIN)
            assert told.counted(catalogue.API_REQUESTS, verb="get", outcome="503") == 1
            assert told.counted(catalogue.API_REQUESTS, verb="get", outcome="500") == 1
            assert told.counted(catalogue.WATCH_RESTARTS, watch="nodes") == 2
            await at.server.stop()
            await eventually(
                lambda: told.counted(catalogue.API_REQUESTS, verb="watch", outcome="away"),
                within=WITHIN,
            )
            following.cancel()
