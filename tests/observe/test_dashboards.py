"""Every panel of every dashboard shows the story, and something else when that goes on."""

from __future__ import annotations

from typing import Any

import pytest

from services.rehearsal import language
from tests.chart.test_dashboards import drawn
from tests.observe.recording import STORY, Recording, parts

Json = dict[str, Any]
NODES = ("gpu-a", "gpu-b")
RANGE, RATE_INTERVAL = "10m", "8s"
LASTING = {  # needs other hardware, or a bug of a kubelet
    "fleet": {"GPUs"},
    "node": {"GPUs"},
    "health": {"Slots that two pods hold"},
}


def test_prometheus_saw_every_part_of_the_story(recording: Recording) -> None:
    """What the parts are about has arrived as numbers."""
    assert not {name: left for name, left in recording.missed.items() if left}
    story = language.read(STORY.read_text(encoding="utf-8"), STORY.name)
    assert list(recording.moments) == [name for name, _ in parts(story.steps)]


def answers(recording: Recording, expr: str, node: str) -> dict[str, list[Json]]:
    """What an expression of a dashboard gives at each moment."""
    asked = expr.replace("$__range", RANGE).replace("$__rate_interval", RATE_INTERVAL)
    asked = asked.replace("$node", node)
    assert "$" not in asked
    return {name: recording.prometheus.query(asked, at) for name, at in recording.moments.items()}


@pytest.mark.parametrize(("page", "panel"), list(drawn()))
def test_a_panel_shows_something_and_something_else_when_that_changes(
    recording: Recording, page: Json, panel: Json
) -> None:
    """Each of its queries has an answer in some part; together not the same in all parts."""
    name = page["uid"].removeprefix("slicewire-")
    nodes = NODES if name == "node" else NODES[:1]
    changes = []
    for target in panel["targets"]:
        seen = [answers(recording, target["expr"], node) for node in nodes]
        assert any(any(each.values()) for each in seen), f"no data: {target['expr']}"
        changes += [len({json_of(found) for found in each.values()}) > 1 for each in seen]
    assert any(changes) is (panel["title"] not in LASTING.get(name, ())), panel["targets"]


def json_of(found: list[Json]) -> str:
    """An answer in a form that can be compared."""
    return repr(sorted((sorted(each["labels"].items()), each["value"]) for each in found))
