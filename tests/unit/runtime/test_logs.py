"""Log lines: one JSON object each, with what they are about; a standing trouble is said once."""

from __future__ import annotations

import json
import logging

import pytest

from shared.runtime import logs


def record(message: str, level: int = logging.WARNING, at: float = 0.0, **fields: object) -> object:
    """A record as a logger makes it."""
    made = logging.LogRecord("x", level, __file__, 1, message, (), None)
    made.created = 1_800_000_000.0 + at
    made.__dict__.update(logs.about(**fields))
    return made


def line(made: object, node: str = "") -> dict[str, object]:
    """What is written of it."""
    assert isinstance(made, logging.LogRecord)
    found: dict[str, object] = json.loads(logs.JsonFormatter("agent", node).format(made))
    return found


def said(repeats: logs.Repeats, made: object) -> bool:
    """Whether it is written."""
    assert isinstance(made, logging.LogRecord)
    return bool(repeats.filter(made))


def test_a_line_says_what_it_is_about() -> None:
    """Node and service of the process, and the fields that have a value."""
    made = record("GPU 0: create 1g.10gb at 2", logging.INFO, gpu="GPU-1", trace="", slots=0)
    assert line(made, "gpu-a") == {
        "time": "2027-01-15T08:00:00.000000Z",
        "level": "info",
        "service": "agent",
        "node": "gpu-a",
        "message": "GPU 0: create 1g.10gb at 2",
        "gpu": "GPU-1",
        "slots": 0,
    }


def test_a_controllers_line_names_the_node_that_it_is_about() -> None:
    """It has none of its own."""
    assert line(record("a", node="gpu-b"))["node"] == "gpu-b"


def test_a_warning_each_second_is_a_line_a_minute_with_a_count() -> None:
    """Whatever its trace; another node's is another trouble."""
    repeats = logs.Repeats()
    written = [
        made
        for second in range(121)
        if said(repeats, made := record("away", at=float(second), node="a", trace=str(second)))
    ]
    assert [line(each).get("repeated") for each in written] == [None, 59, 59]
    assert said(repeats, record("away", at=121.0, node="b"))


def test_decisions_that_read_the_same_are_all_written() -> None:
    """Two slots handed out are two lines."""
    repeats = logs.Repeats()
    assert all(said(repeats, record("handed out", logging.INFO)) for _ in range(3))


def test_what_is_remembered_is_bounded() -> None:
    """Sentences with numbers in them never come again."""
    repeats = logs.Repeats()
    for number in range(logs.MOST_KEPT + 10):
        said(repeats, record(f"pod {number}"))
    assert said(repeats, record("pod 0"))
    assert not said(repeats, record(f"pod {logs.MOST_KEPT + 9}"))


def test_the_level_is_a_setting(capsys: pytest.CaptureFixture[str]) -> None:
    """What only somebody who looks for a mistake reads is not written by default."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    try:
        logs.set_up("agent")
        logging.getLogger("x").debug("no")
        logs.set_up("agent", "gpu-a", "debug")
        logging.getLogger("x").debug("yes")
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    (written,) = capsys.readouterr().err.splitlines()
    assert (json.loads(written)["message"], json.loads(written)["level"]) == ("yes", "debug")
