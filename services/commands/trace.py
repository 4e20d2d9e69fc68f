"""`slicewire trace [ID | NODE | --last]`: the tree of one change, or which changes there were.

It is made from the spans that all services leave on the bus for an hour, so no collector is needed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from services.commands import access
from services.views import console as view
from services.views import page, spantree, trace_lines
from shared.bus import logs

NAME = "trace"
LISTED = 20
MISSING = "some spans of this trace are missing"


def main(argv: Sequence[str]) -> int:
    """Run the command."""
    parser = access.Parser(
        NAME, "Print the tree of one change, step by step; without an argument, list the newest."
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "about",
        nargs="?",
        metavar="ID|NODE",
        help="a trace id, or how it begins; or a node, for the newest change that reached it",
    )
    which.add_argument("--last", action="store_true", help="the newest change of all")
    parser.add_bus(os.environ)
    arguments = parser.read(argv)
    parser.check_given(arguments.about)
    return access.run(lambda: show(arguments), NAME, json=arguments.output == "json")


async def show(arguments: argparse.Namespace) -> int:
    """Read the spans and print; status 1 where there is none of what was asked for."""
    async with access.opened(arguments) as bus:
        traces = spantree.traces(await logs.read_spans(bus))
    json = arguments.output == "json"
    if arguments.about is None and not arguments.last:
        return _list(traces, json=json)
    trace = chosen(traces, arguments.about)
    if trace is None:
        asked = arguments.about or "--last"
        return access.fail(NAME, f"no trace for {asked}; spans are kept for an hour", json=json)
    form = trace.form(spantree.linked(trace, traces))
    if json:
        access.print_json(form)
    else:
        write(form, view.open_console(sys.stdout))
    return 0


def chosen(traces: Sequence[spantree.Trace], about: str | None) -> spantree.Trace | None:
    """The trace that was asked for; of several the newest change, else the newest."""
    fitting = [trace for trace in traces if about is None or about in trace.nodes]
    if about and not fitting:  # a node may be called as an id begins
        fitting = [trace for trace in traces if trace.trace_id.startswith(about.lower())]
    newest = [trace for trace in fitting if trace.is_change] or fitting
    return newest[-1] if newest else None


def write(form: dict[str, Any], console: Console) -> None:
    """Write a trace for people."""
    on = page.of(console)
    lines = trace_lines.heading(form, on) + trace_lines.tree(form["spans"], on)
    if not form["whole"]:
        lines += on.flow([view.note(MISSING)], 0, 2)
    for line in lines + trace_lines.linked(form, on):
        console.print(line)


def _list(traces: Sequence[spantree.Trace], *, json: bool) -> int:
    """List the newest changes, or what else there is."""
    changes = [trace for trace in traces if trace.is_change] or traces
    forms = [trace.form() for trace in reversed(changes[-LISTED:])]
    if json:
        access.print_json({"traces": forms})
        return 0
    if not forms:
        sys.stderr.write(f"slicewire {NAME}: nothing has changed; spans are kept for an hour\n")
        return 0
    console = view.open_console(sys.stdout)
    for line in trace_lines.recent(forms, page.of(console)):
        console.print(line)
    return 0
