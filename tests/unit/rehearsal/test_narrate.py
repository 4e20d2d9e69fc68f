"""What people read is what was observed, also where a terminal has no colours and no Unicode."""

from __future__ import annotations

import io

from services.rehearsal.narrate import Narrator
from services.rehearsal.outcome import Outcome, Result
from services.rehearsal.story import (
    About,
    Action,
    Condition,
    ConfigMap,
    Expect,
    Node,
    Say,
    Step,
    Story,
)
from services.views import console as view

EXPECT = Expect(conditions=(Condition(about=About.NODE, name="gpu-a", wants=(("lists", 1),)),))


def result(action: Action, *, ok: bool = True, seen: object = None, why: str = "") -> Result:
    """What came of a step on line 7."""
    step = Step(line=7, kind="expect", action=action)
    shown = seen if isinstance(seen, dict) else {}
    return Result(step=step, ok=ok, seconds=1.25, seen=shown, why=why)


def told(*results: Result, encoding: str = "utf-8") -> str:
    """What a narrator writes about these results."""
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    narrator = Narrator(view.open_console(file))
    nodes = (Node(name="gpu-a", gpus=("t4", {"model": "t4", "uuid": "GPU-1"}, "l4")),)
    story = Story(
        file="s.yaml", nodes=nodes, config_maps={"c": {"k": "former"}}, values={}, steps=()
    )
    narrator.begin(story)
    for each in results:
        narrator.tell(each)
    ok = all(each.ok for each in results)
    outcome = Outcome(file="s.yaml", ok=ok, seconds=3, results=results)
    narrator.end(outcome, len(results) + 1)
    file.flush()
    buffer = file.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode(encoding)


def test_nodes_are_introduced_by_their_gpus() -> None:
    """Equal cards are counted."""
    assert "node gpu-a: 2 x t4, 1 x l4" in told()


def test_what_was_seen_is_told_not_what_was_expected() -> None:
    """The line shows the observed value, and slots as a bar with words."""
    text = told(result(EXPECT, seen={"lists": 3, "slots": {"r/x": {"held": 2, "free": 1}}}))
    assert "✓ " in text
    assert "lists 3" in text
    assert "slots r/x ■■□  2 held, 1 free" in text
    assert "the only step was as expected" in text


def test_states_without_a_slot_are_not_called_no_slots() -> None:
    """A story that asks only who holds slots has not looked whether there are free ones."""
    text = told(result(EXPECT, seen={"slots": {"r/x": {"held": 0}}}))
    assert "slots r/x {held: 0}" in text
    assert "no slots" not in text


def test_a_failure_says_why_and_how_much_was_not_played() -> None:
    """The line number leads to the step in the file."""
    text = told(result(EXPECT, ok=False, seen={"lists": 3}, why="lists is 3, not 1"))
    assert "✗ " in text
    assert "lists is 3, not 1" in text
    assert "not as expected: line 7; 1 step not played" in text


def test_only_the_changed_texts_of_a_config_map_are_shown() -> None:
    """Keys that stay are left out, keys that go are named."""
    text = told(
        result(ConfigMap(name="c", data={"k": "former", "l": "two"})),
        result(ConfigMap(name="c", data={"l": "three"})),
    )
    assert "former" not in text
    assert [word in text for word in ("two", "three", "k: gone")] == [True, True, True]


def test_holders_and_traces_are_shown_as_people_read_them() -> None:
    """A row for each slot; a tree with durations."""
    row = {"pod": "ml/a", "slot": "GPU-1::0"}
    leaf: dict[str, object] = {
        "name": "send list",
        "service": "allocator",
        "node": "gpu-a",
        "attributes": {},
        "children": [],
    }
    leaf |= {"start": 5_000_000, "milliseconds": 2.0, "ok": True, "error": ""}
    root = leaf | {"name": "change config", "start": 0, "children": [leaf]}
    text = told(result(EXPECT, seen={"who": {"holders": [row]}, "trace": {"tree": [root]}}))
    assert "ml/a  GPU-1::0" in text
    assert "└─ send list  2.0 ms  at +5.0 ms  allocator gpu-a" in text


def test_a_sentence_stands_by_itself() -> None:
    """A `say` step is a heading and is not counted as a step that was seen."""
    text = told(result(Say(text="What now?")))
    assert "\nWhat now?\n" in text
    assert "all 0 steps" in text


def test_a_terminal_without_unicode_is_told_the_same() -> None:
    """Every sign has a plain one."""
    text = told(result(EXPECT, seen={"slots": {"r/x": {"held": 1, "free": 1}}}), encoding="ascii")
    assert "ok" in text
    assert "#.  1 held, 1 free" in text
