"""Every panel of every dashboard shows the story, and something else when that goes on."""

from __future__ import annotations

from typing import Any

import pytest

from services.rehearsal import language
from tests.chart.test_dashboards import PAGES, VARIABLE, drawn
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
    assert not VARIABLE.search(asked)
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


NUMBERS = [  # page, panel, query, labels of a series, its value at the end of parts
    ("fleet", "Slots by state", "A", {"state": "held"}, {"idle": 0, "held": 5, "back": 4}),
    ("fleet", "Slots by state", "A", {"state": "free"}, {"idle": 12, "held": 7}),
    ("fleet", "GPUs that are sick", "A", {}, {"waiting": 0, "sick": 1}),
    ("fleet", "Pods that wait for slots", "A", {}, {"held": 0, "waiting": 2}),
    ("fleet", "Nodes by state", "A", {"state": "failed"}, {"changed": 0, "refused": 1}),
    ("fleet", "Nodes", "B", {"node": "gpu-a"}, {"held": 0, "sick": 1}),
    ("fleet", "Nodes", "D", {"node": "gpu-a"}, {"idle": 0, "held": 3, "cut": 4}),
    ("node", "Slots in use, by GPU", "A", {"index": "0"}, {"idle": 0}),
    ("node", "GPU memory, by container", "A", {"pod": "train-1"}, {"held": 20480 * 2**20}),
    ("change", "Evictions", "A", {"outcome": "evicted"}, {"changed": 1, "refused": 1}),
    ("change", "MIG: calls that changed a GPU", "A", {"call": "destroy"}, {"changed": 1}),
    ("change", "MIG: calls that changed a GPU", "A", {"call": "create"}, {"changed": 2}),
    ("sharing", "Asked, held, offered", "B", {}, {"idle": 0, "held": 5}),
    ("sharing", "Asked, held, offered", "A", {}, {"held": 5, "waiting": 7}),
    ("sharing", "Use that nobody holds", "A", {}, {"held": 0, "waiting": 300 * 2**20}),
    (
        "sharing",
        "Containers that hold slots and use no GPU memory",
        "A",
        {"pod": "sleepy"},
        {"held": 1},
    ),
    ("health", "XIDs", "A", {"xid": "79"}, {"sick": 1, "changed": 1}),
    ("health", "Services without the bus", "A", {}, {"refused": 0, "cut": 6, "back": 0}),
    ("health", "Controllers that lead", "A", {}, {"refused": 1, "cut": 0, "back": 1}),
]


@pytest.mark.parametrize(
    ("page", "title", "letter", "labels", "wanted"),
    NUMBERS,
    ids=[f"{page}: {title} {letter} {labels}" for page, title, letter, labels, _ in NUMBERS],
)
def test_a_panel_s_numbers_are_those_of_the_story(
    recording: Recording,
    page: str,
    title: str,
    letter: str,
    labels: dict[str, str],
    wanted: dict[str, float],
) -> None:
    """Pods come and held slots rise; a GPU fails and is counted."""
    (panel,) = [each for each in PAGES[page]["panels"] if each["title"] == title]
    (target,) = [each for each in panel["targets"] if each["refId"] == letter]
    seen = answers(recording, target["expr"], NODES[0])
    assert {part: value_of(seen[part], labels) for part in wanted} == wanted


def value_of(found: list[Json], labels: dict[str, str]) -> float | None:
    """The value of the series with these labels."""
    values = [each["value"] for each in found if each["labels"].items() >= labels.items()]
    return values[0] if len(values) == 1 else None
