"""`slicewire trace`: the tree of one change, from the spans that all services left on the bus."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from services.commands import access
from services.views import console as view
from services.views import spantree
from shared.bus import logs


def main(argv: Sequence[str]) -> int:
    """Run the command."""
    parser = access.Parser("trace", "Print the tree of one change, step by step.")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("trace", nargs="?", metavar="ID", help="a trace id, or how it begins")
    which.add_argument("--node", metavar="NODE", help="the newest change that reached a node")
    which.add_argument("--last", action="store_true", help="the newest change of all")
    parser.add_bus(os.environ)
    arguments = parser.read(argv)
    return access.run(lambda: show(arguments), "trace", json=arguments.output == "json")


async def show(arguments: argparse.Namespace) -> int:
    """Read the spans and print the trace; status 1 where there is none."""
    async with access.opened(arguments) as bus:
        traces = spantree.traces(await logs.read_spans(bus))
    trace = chosen(traces, arguments)
    if trace is None:
        asked = arguments.trace or arguments.node or "--last"
        sentence = f"no trace for {asked}; spans are kept for an hour"
        return access.fail("trace", sentence, json=arguments.output == "json")
    form = as_form(trace, spantree.linked(trace, traces))
    if arguments.output == "json":
        access.print_json(form)
    else:
        write(form, view.open_console(sys.stdout))
    return 0


def chosen(
    traces: Sequence[spantree.Trace], arguments: argparse.Namespace
) -> spantree.Trace | None:
    """The trace that was asked for; of several the newest change, else the newest."""
    fitting = [
        trace
        for trace in traces
        if (arguments.trace is None or trace.trace_id.startswith(arguments.trace.lower()))
        and (arguments.node is None or arguments.node in trace.nodes)
    ]
    newest = [trace for trace in fitting if trace.is_change] or fitting
    return newest[-1] if newest else None


def as_form(trace: spantree.Trace, linked: Sequence[spantree.Trace]) -> dict[str, Any]:
    """The answer as JSON has it."""
    return {
        "trace": trace.trace_id,
        "start": trace.start_ns,
        "milliseconds": round((trace.end_ns - trace.start_ns) / 1e6, 3),
        "whole": trace.whole,
        "spans": [branch.form() for branch in trace.roots],
        "linked": [{"trace": each.trace_id, "name": each.spans[0].name} for each in linked],
    }


def write(form: dict[str, Any], console: Console) -> None:
    """Write the trace for people."""
    console.print(
        Text(f"trace {form['trace']}", style="bold").append(
            f"  {view.duration(form['milliseconds'])}", style="cyan"
        )
    )
    for line in view.tree(form["spans"], view.marks(console)):
        console.print(line)
    if not form["whole"]:
        console.print(Text("some spans of this trace are missing", style="yellow"))
    for each in form["linked"]:
        console.print(Text(f"linked: {each['name']}, trace {each['trace']}", style="dim"))
