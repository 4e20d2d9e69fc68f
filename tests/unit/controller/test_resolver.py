"""The resolver's loop: flapping labels, unchanged nodes, spans; time is jumped over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from services.reconfigurer.controller import feeds, fleet, nodes, resolver, saying, settle, texts
from shared.contract import names
from shared.contract.messages import Intent
from shared.contract.spans import SpanRecord
from shared.sharing import select
from shared.telemetry import spans
from tests.support import logged

LABEL = names.CONFIG_LABEL
VIEW = ("nodes_listed", "config_listed", "mig_listed", "hardware_read")
SETTLED_S = settle.QUIET_S + 0.1

pytestmark = pytest.mark.looptime


def text(replicas: int) -> str:
    return (
        "version: v1\nsharing:\n  timeSlicing:\n    resources:\n"
        f"    - name: nvidia.com/gpu\n      replicas: {replicas}\n"
    )


@dataclass
class Stage:
    """A resolver with two nodes and what came out of it."""

    view: fleet.Fleet
    resolving: resolver.Resolver
    says: list[saying.Say]
    intents: list[Intent] = field(default_factory=list)
    wanted: list[tuple[str, nodes.Wanted]] = field(default_factory=list)
    spans: list[SpanRecord] = field(default_factory=list)

    def label(self, name: str, key: str) -> None:
        """Label a node, as the watch would tell."""
        self.view.nodes[name] = nodes.Node(name=name, labels={LABEL: key})
        self.resolving.look_at([name], by_label=True)

    def edit(self, **replicas: int) -> None:
        """Give the ConfigMap these keys, as the watch would tell."""
        data = {key: text(count) for key, count in replicas.items()}
        self.view.config_map = texts.ConfigMap(name="sharing", data=data)
        self.resolving.look_at(list(self.view.nodes), by_label=False)

    def served(self, name: str) -> list[int]:
        """Replicas of all intents of a node, in order."""
        mine = [each for each in self.intents if each.stamp.node == name]
        return [each.sharing.resources[0].replicas for each in mine]

    def named(self, name: str) -> list[SpanRecord]:
        """Spans of this name."""
        return [span for span in self.spans if span.name == name]


@contextlib.asynccontextmanager
async def running(*, before: str = "") -> AsyncIterator[Stage]:
    """Two nodes on key `a`, resolved; or all but one part of the view read."""
    data = {"a": text(2), "b": text(4)}
    view = fleet.Fleet(
        config_label=LABEL, intents={}, config_map=texts.ConfigMap(name="sharing", data=data)
    )
    for name in ("gpu-1", "gpu-2"):
        view.nodes[name] = nodes.Node(name=name, labels={LABEL: "a"})
    for part in VIEW:
        if part != before:
            getattr(view, part).set()
    telemetry = spans.Telemetry("controller", "")
    says: list[saying.Say] = []
    outlets = resolver.Outlets(
        publish=lambda _, wanted, __: stage.intents.append(wanted),
        begun=lambda *_: None,
        say=says.append,
        want=lambda name, wanted: stage.wanted.append((name, wanted)),
    )
    choice = select.Choice(label=LABEL)
    stage = Stage(view, resolver.Resolver(view, choice, outlets, telemetry, "w"), says)
    telemetry.sink = stage.spans.append
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(stage.resolving.run(0))
        await asyncio.sleep(SETTLED_S)
        assert before or stage.served("gpu-1") == stage.served("gpu-2") == [2]
        yield stage
        task.cancel()


@pytest.mark.parametrize("part", VIEW)
async def test_half_a_view_decides_nothing(part: str) -> None:
    """Nodes, texts and hardware have to be known once before anything is taken from a node."""
    async with running(before=part) as stage:
        assert not stage.intents
        getattr(stage.view, part).set()
        await asyncio.sleep(0.01)
        assert stage.served("gpu-1") == [2]


async def test_an_operators_clearing_reaches_its_node_and_no_other() -> None:
    """By one intent, however often the node is looked at."""
    async with running() as stage:
        told = {"metadata": {"name": "gpu-1", "labels": {LABEL: "a"}}}
        watched = feeds.Nodes(
            stage.view,
            lambda names: stage.resolving.look_at(names, by_label=True),
            lambda _: None,
        )
        told["metadata"]["annotations"] = {names.CLEAR_HEALTH_ANNOTATION: "the card was swapped"}
        for _ in range(2):
            watched.changed(told)
            await asyncio.sleep(SETTLED_S)
        assert [each.clear_health for each in stage.intents if each.stamp.node == "gpu-1"] == [
            "",
            "the card was swapped",
        ]
        assert stage.served("gpu-2") == [2]


async def test_the_first_change_of_a_label_is_not_delayed() -> None:
    """Someone who changes a label once sees it at once."""
    async with running() as stage:
        stage.label("gpu-1", "b")
        await asyncio.sleep(0.01)
        assert stage.served("gpu-1") == [2, 4]


async def test_a_label_that_flaps_turns_slots_over_once_in_each_quiet_time() -> None:
    """What is wanted when it ends is served; the node beside is not touched."""
    async with running() as stage:
        for key in ("b", "a", "b", "a", "b", "a"):
            stage.label("gpu-1", key)
            await asyncio.sleep(0.1)
        assert stage.served("gpu-1") == [2, 4]
        await asyncio.sleep(SETTLED_S)
        assert stage.served("gpu-1") == [2, 4, 2]
        assert stage.served("gpu-2") == [2]


async def test_a_way_back_to_what_serves_drops_what_waits() -> None:
    """Nothing is left that would be applied later."""
    async with running() as stage:
        stage.label("gpu-1", "b")
        await asyncio.sleep(0.1)
        stage.label("gpu-1", "a")
        await asyncio.sleep(0.1)
        stage.label("gpu-1", "b")
        await asyncio.sleep(3 * SETTLED_S)
        assert stage.served("gpu-1") == [2, 4]


async def test_an_edit_does_not_wait_for_labels_to_settle() -> None:
    """The ConfigMap is applied at once to all nodes."""
    async with running() as stage:
        stage.label("gpu-1", "b")
        await asyncio.sleep(0.1)
        stage.edit(a=6, b=8)
        await asyncio.sleep(0.01)
        assert stage.served("gpu-1") == [2, 4, 8]
        assert stage.served("gpu-2") == [2, 6]


async def test_one_edit_is_one_generation_and_one_trace_for_all_its_nodes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Root, and for each node that changes one resolution, one intent and one line below it."""
    logged.everything(caplog)
    async with running() as stage:
        stage.spans.clear()
        stage.edit(a=6, b=4)
        await asyncio.sleep(0.01)
        (first, second) = stage.intents[-2:]
        assert first.stamp.generation == second.stamp.generation
        (root,) = stage.named("change config")
        assert root.attributes["cause"] == "ConfigMap"
        for name in ("resolve config", "publish intent"):
            assert [span.parent_id for span in stage.named(name)] == [root.span_id] * 2
        assert {span.trace_id for span in stage.spans} == {root.trace_id}
        told = logged.lines(caplog, "6 slots of each nvidia.com/gpu")
        assert [(line.level, line.about["node"], line.about["trace"]) for line in told] == [
            ("info", name, root.trace_id) for name in ("gpu-1", "gpu-2")
        ]


async def test_what_changes_nothing_makes_no_intent_no_span_and_no_event() -> None:
    """Another key was edited: these nodes have nothing to do with it."""
    async with running() as stage:
        stage.spans.clear()
        before = len(stage.intents), len(stage.says), len(stage.wanted)
        stage.edit(a=2, b=9)
        await asyncio.sleep(SETTLED_S)
        assert (len(stage.intents), len(stage.says), len(stage.wanted)) == before
        assert not stage.spans


async def test_each_change_is_newer_than_the_last_and_stands_on_the_node() -> None:
    """The annotation is wanted with every new intent."""
    async with running() as stage:
        stage.label("gpu-1", "b")
        await asyncio.sleep(0.01)
        first, second = (it.stamp.generation for it in stage.intents if it.stamp.node == "gpu-1")
        assert first < second
        name, wanted = stage.wanted[-1]
        assert name == "gpu-1"
        assert wanted.annotations == {names.GENERATION_ANNOTATION: str(second)}


async def test_a_node_that_is_deleted_while_it_waits_is_forgotten() -> None:
    """Its label has settled and nobody is there."""
    async with running() as stage:
        stage.label("gpu-1", "b")
        await asyncio.sleep(0.1)
        stage.label("gpu-1", "a")
        await asyncio.sleep(0.1)
        del stage.view.nodes["gpu-1"]
        await asyncio.sleep(SETTLED_S)
        assert stage.served("gpu-1") == [2, 4]


async def test_a_text_that_is_refused_is_a_warning_that_names_the_node(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With the path in the text, and the trace in which it was refused."""
    logged.everything(caplog)
    async with running() as stage:
        stage.edit(a=0, b=4)
        await asyncio.sleep(0.01)
        first, second = logged.lines(caplog, "sharing/a is refused")
        assert (first.level, first.about["state"], second.about["node"]) == (
            "warning",
            "refused",
            "gpu-2",
        )
        assert "sharing.timeSlicing.resources[0].replicas" in first.message
        assert first.about["trace"] == stage.named("resolve config")[-1].trace_id
