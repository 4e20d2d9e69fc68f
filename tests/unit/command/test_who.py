"""`who` and `trace` on terminals of all widths, and what their arguments choose."""

from __future__ import annotations

import argparse
import dataclasses
import io

import pytest
from rich.console import Console

from services.commands import trace, who
from services.views import spantree
from services.views.holders import HolderRow
from shared.contract.spans import SpanRecord

ROW = HolderRow(
    node="gpu-a",
    gpu=0,
    uuid="GPU-33b44cde-b5b4-5a55-bcc9-b3e17054e0aa",
    slot="GPU-33b44cde-b5b4-5a55-bcc9-b3e17054e0aa::0",
    resource="nvidia.com/gpu",
    pod="default/train-1",
    container="main",
    since="2027-01-15T08:00:00.5Z",
    trace="abc",
)
UNKNOWN = dataclasses.replace(ROW, gpu=None, pod=None, container=None, since=None)
SPAN = SpanRecord(
    trace_id="ab" * 16,
    span_id="1",
    parent_id="",
    name="allocate slots",
    service="allocator",
    node="gpu-a",
    start_ns=5,
    end_ns=6,
)


def written(width: int) -> list[str]:
    """What people read on a terminal of this width."""
    file = io.StringIO()
    who.write([ROW, UNKNOWN], Console(file=file, force_terminal=True, width=width, no_color=True))
    return file.getvalue().splitlines()


def test_holders_are_a_table_where_it_fits() -> None:
    """A row for each slot; nothing is cut."""
    head, first, second = written(160)
    assert "NODE" in head
    assert "default/train-1" in first
    assert ROW.slot in first
    assert "(not yet known)" in second


@pytest.mark.parametrize("width", [60, 80])
def test_on_a_narrow_terminal_each_holder_is_a_paragraph(width: int) -> None:
    """The pod first, ids in one piece."""
    lines = written(width)
    assert sum("default/train-1" in line for line in lines) == 1
    assert sum(ROW.slot in line for line in lines) == 2
    assert any("since 2027-01-15T08:00:00Z" in line for line in lines)


def test_a_trace_is_chosen_by_the_beginning_of_its_id_or_by_a_node() -> None:
    """Of several the newest change; a single call only where there is nothing else."""
    change = [
        dataclasses.replace(SPAN, trace_id="cd" * 16, span_id=str(at), start_ns=at) for at in (1, 2)
    ]
    call = SPAN
    elsewhere = dataclasses.replace(SPAN, trace_id="ef" * 16, node="gpu-b", start_ns=9, end_ns=9)
    traces = spantree.traces([*change, call, elsewhere])
    ids = {
        about: found.trace_id[:2]
        for about in (None, "ABAB", "gpu-a", "gpu-b")
        if (found := trace.chosen(traces, about))
    }
    assert ids == {None: "cd", "ABAB": "ab", "gpu-a": "cd", "gpu-b": "ef"}
    assert trace.chosen(traces, "gpu-c") is None
    of_node = [dataclasses.replace(each, node="c") for each in change]
    newer = [dataclasses.replace(elsewhere, trace_id="cc" * 16, span_id=at) for at in ("1", "2")]
    named = spantree.traces([call, *of_node, *newer])
    assert (trace.chosen(named, "c") or named[0]).trace_id == "cd" * 16, "a node's name comes first"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"gpu": ROW.uuid}, ""),
        ({"gpu": ROW.slot}, f"no GPU or MIG device {ROW.slot}: that is a slot of {ROW.uuid}"),
        (
            {"gpu": "GPU-33b44cde"},
            f'no GPU or MIG device GPU-33b44cde: did you mean "{ROW.uuid}"?',
        ),
        ({"gpu": "0"}, "no GPU or MIG device 0: slicewire status NODE shows them"),
        ({"node": "gpu-a"}, ""),
        ({"node": "gpu-aa"}, 'no node gpu-aa; did you mean "gpu-a"?'),
        ({"pod": "default/a"}, "default/a holds no slot: slicewire why default/a says why"),
    ],
    ids=str,
)
def test_what_is_not_there_is_no_gpu_that_nobody_holds(asked: dict[str, str], said: str) -> None:
    """A mistyped UUID gets a sentence of its own, with what was meant."""
    arguments = argparse.Namespace(**({"gpu": None, "pod": None, "node": None} | asked))
    assert who.unknown(arguments, ["gpu-a"], [ROW.uuid]) == said
