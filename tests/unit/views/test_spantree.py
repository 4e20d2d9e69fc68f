"""Spans become trees; links lead from a trace to its causes and effects, and no further."""

from __future__ import annotations

import pytest

from services.views import spantree
from shared.contract.spans import SpanRecord


def span(
    trace: str, name: str, parent: str = "", *, start: int = 0, links: tuple[str, ...] = ()
) -> SpanRecord:
    """A span whose id is its name."""
    return SpanRecord(
        trace_id=trace,
        span_id=name,
        parent_id=parent,
        name=name,
        service="s",
        node="n",
        start_ns=start,
        end_ns=start + 10,
        links=links,
    )


def names(branch: spantree.Branch) -> dict[str, object]:
    """A tree of names."""
    return {branch.span.name: [names(child) for child in branch.children]}


def test_children_hang_on_their_parents_in_order_of_start() -> None:
    """Whatever order spans arrive in, the tree is the same."""
    spans = [
        span("t", "late", "root", start=5),
        span("t", "early", "root", start=2),
        span("t", "root", start=1),
        span("t", "leaf", "early", start=3),
    ]
    (trace,) = spantree.traces(spans)
    (root,) = trace.roots
    assert names(root) == {"root": [{"early": [{"leaf": []}]}, {"late": []}]}
    assert trace.whole
    assert (trace.start_ns, trace.end_ns) == (1, 15)


def test_a_lost_parent_leaves_more_than_one_root() -> None:
    """What cannot be hung anywhere is shown all the same, and the trace says it is not whole."""
    (trace,) = spantree.traces([span("t", "root"), span("t", "orphan", "lost", start=1)])
    assert [branch.span.name for branch in trace.roots] == ["root", "orphan"]
    assert not trace.whole


@pytest.mark.parametrize(
    "spans",
    [
        pytest.param([span("t", "a", "b"), span("t", "b", "a", start=1)], id="each-the-others"),
        pytest.param([span("t", "a", "a")], id="its-own-parent"),
        pytest.param([span("t", "", "")], id="no-ids"),
        pytest.param(
            [span("t", str(number), str(number - 1), start=number) for number in range(5000)],
            id="without-end",
        ),
    ],
)
def test_spans_that_name_parents_in_a_circle_are_shown(spans: list[SpanRecord]) -> None:
    """They come from other processes, and one trace of them must not hide the others."""
    (trace,) = spantree.traces(spans)
    forms = [branch.form() for branch in trace.roots]
    waiting, shown = list(forms), 0
    while waiting:
        shown += 1
        waiting += waiting.pop()["children"]
    assert shown == len(trace.spans)


def test_a_span_stored_twice_counts_once() -> None:
    """Batches may be sent again."""
    (trace,) = spantree.traces([span("t", "root"), span("t", "root")])
    assert len(trace.spans) == 1


@pytest.mark.parametrize("link", ["a", "00-a-0123-01"], ids=["trace id", "traceparent"])
def test_links_lead_to_causes_and_effects_but_not_to_siblings(link: str) -> None:
    """Two Allocates after one edit are not each other's business."""
    edit, one, two = spantree.traces(
        [
            span("a", "edit", start=1),
            span("b", "allocate", start=2, links=(link,)),
            span("c", "allocate", start=3, links=(link,)),
        ]
    )
    among = (edit, one, two)
    assert spantree.linked(edit, among) == (one, two)
    assert spantree.linked(one, among) == (edit,)


def test_links_in_a_circle_end() -> None:
    """Traces that name each other do not keep us busy for ever."""
    one, two = spantree.traces(
        [span("a", "x", start=1, links=("b",)), span("b", "y", start=2, links=("a",))]
    )
    assert spantree.linked(one, (one, two)) == (two,)
