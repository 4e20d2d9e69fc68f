"""A trace as people see it: what was done to what, for how long, what failed, at any width."""

from __future__ import annotations

import dataclasses

import pytest

from services.views import spantree, trace_lines
from shared.contract.spans import SpanRecord
from tests.unit.views import blank

START_NS = blank.NOW_NS - 90 * 1_000_000_000
MS = 1_000_000
ROOT = SpanRecord(
    trace_id="ab" * 16,
    span_id="1",
    parent_id="",
    name="change config",
    service="controller",
    node="",
    start_ns=START_NS,
    end_ns=START_NS + 5 * MS,
    attributes={"cause": "label", "generation": "1.2"},
)


def span(number: int, name: str, parent: str, **more: object) -> SpanRecord:
    """A step of the agent that began some ms after the first."""
    record = SpanRecord(
        trace_id=ROOT.trace_id,
        span_id=str(number),
        parent_id=parent,
        name=name,
        service="agent",
        node="gpu-a",
        start_ns=START_NS + number * MS,
        end_ns=START_NS + number * 2 * MS,
    )
    return dataclasses.replace(record, **more)  # type: ignore[arg-type]  # a test's keywords


SPANS = (
    ROOT,
    span(2, "publish progress", "1", attributes={"phase": "holding"}),
    span(3, "evict pod", "2", attributes={"node": "gpu-a", "pod": "ml/a"}),
    span(
        4,
        "create instance",
        "1",
        attributes={"step": "create 1g.10gb at 0", "gpu": "GPU-1"},
        ok=False,
        error="NVML answered INSUFFICIENT_RESOURCES: " + "no room " * 8,
    ),
)


def lines(width: int | None = None) -> list[str]:
    """The tree."""
    (trace,) = spantree.traces(SPANS)
    drawn = trace_lines.tree(trace.form()["spans"], blank.page(width))
    return [line.plain for line in drawn]


def test_steps_of_one_name_are_told_apart() -> None:
    """By phase, pod and step; a failed one says why."""
    assert lines() == [
        "change config  label  5.0 ms  at +0.0 ms  controller",
        "├─ publish progress  holding  2.0 ms  at +2.0 ms  agent gpu-a",
        "│  └─ evict pod  ml/a, node gpu-a  3.0 ms  at +3.0 ms  agent gpu-a",
        "└─ create instance  create 1g.10gb at 0  4.0 ms  at +4.0 ms  agent gpu-a"
        f"  {SPANS[3].error}",
    ]


@pytest.mark.parametrize("width", [60, 80])
def test_what_is_too_long_goes_on_below_inside_the_tree(width: int) -> None:
    """The branches to the left are not broken."""
    drawn = lines(width)
    assert max(map(len, drawn)) <= width
    assert drawn[0].startswith("change config")
    inside = drawn[1 : next(at for at, line in enumerate(drawn) if line.startswith("└─"))]
    assert all(line[0] in "├│" for line in inside)
    assert " ".join(" ".join(drawn).split()).count("no room") == 8


def test_a_trace_says_when_it_was_and_how_much_of_it_failed() -> None:
    """Before any step is read."""
    (trace,) = spantree.traces(SPANS)
    (line,) = trace_lines.heading(trace.form(), blank.page())
    began = "began 2027-01-15T08:00:00Z, 90 s ago"
    assert line.plain == f"trace {ROOT.trace_id}  8.0 ms  {began}  1 step failed"


def test_linked_traces_say_how_they_lie_in_time() -> None:
    """A retry comes after, what it goes back to before."""
    earlier = dataclasses.replace(ROOT, trace_id="cd" * 16, start_ns=START_NS - 30 * 1000 * MS)
    linked = dataclasses.replace(ROOT, links=("cd" * 16,))
    first, second = spantree.traces((linked, earlier))
    form = second.form(spantree.linked(second, (first, second)))
    (line,) = trace_lines.linked(form, blank.page())
    assert line.plain == f"linked: change config  30 s before  trace {'cd' * 16}"


def test_the_newest_changes_are_listed_by_what_one_types() -> None:
    """The beginning of an id, what it was, where, and whether it went well."""
    (trace,) = spantree.traces(SPANS)
    head, line = trace_lines.recent([trace.form()], blank.page())
    assert head.plain.split() == ["TRACE", "BEGAN", "TOOK", "WHAT", "NODES"]
    assert line.plain == "abababab  90 s ago  8.0 ms  change config ✗  gpu-a"
