"""`slicewire why NS/POD`: why a pod does not run, what each node says of it, and what to do."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from services.commands import access
from services.views import console as view
from services.views import page, proposals, silence, waiting, why
from services.views.book import Book
from shared.runtime import clock
from shared.sharing import suggest
from shared.simulation.gpu import catalogue
from shared.waiting.reasons import Finding, Reason, Verdict

HEADING = ("NODE", "REASON", "RESOURCE", "WANTED", "TOTAL", "FREE", "HELD", "UNHEALTHY", "")
MOST_NODES = 20  # that people are shown


def main(argv: Sequence[str]) -> int:
    """Run the command."""
    parser = access.Parser("why", "Say why a pod does not run, and what would help.")
    parser.add_argument("pod", metavar="NAMESPACE/NAME", help="a pod")
    parser.add_bus(os.environ)
    arguments = parser.read(argv)
    parser.check_pod(arguments.pod, "the pod")
    return access.run(lambda: show(arguments), "why", json=arguments.output == "json")


async def show(arguments: argparse.Namespace) -> int:
    """Read the bus and print; status 1 where nothing is known of the pod."""
    async with access.opened(arguments) as bus:
        book = await access.read_book(bus)
        verdict = await why.find(bus, book, arguments.pod)
    if verdict is None:
        return access.fail("why", _unknown(book, arguments.pod), json=arguments.output == "json")
    trial = _trial(book, verdict)
    if arguments.output == "json":
        access.print_json(waiting.form(verdict) | {"try": trial})
    else:
        write(verdict, trial, page.of(view.open_console(sys.stdout)))
    for sentence in stale(book, verdict, clock.now_ns()):
        sys.stderr.write(f"slicewire why: {sentence}\n")
    return 0


def stale(book: Book, verdict: Verdict, now_ns: int) -> list[str]:
    """Say which of those who tell of the pod and its nodes have not been heard for long."""
    leader = silence.of_controller(book.controller.seen if book.controller else None, now_ns)
    nodes = {each.node for each in verdict.nodes[:MOST_NODES]}
    return [*filter(None, (leader,)), *silence.of_nodes(book.states(), nodes, now_ns)]


def write(verdict: Verdict, trial: str, on: page.Page) -> None:
    """Write the answer for people."""
    console = on.console
    good = verdict.reason is Reason.RUNNING
    heading = Text(verdict.pod, style="bold").append("  ")
    heading.append(verdict.reason, style="bold green" if good else "bold yellow")
    console.print(heading)
    lines = on.flow([Text(verdict.sentence)], 2, 4)
    for part in filter(None, verdict.hint.split("; ")):
        lines += on.flow([Text(f"{on.signs.act} {part}")], 2, 4)
    _print(lines, console)
    if trial and verdict.proposal is not None:
        console.print(Text("  try it on paper:", style="dim"))
        console.print(Text(f"    {trial}"))
        console.print(Text("  and when its text stands in the ConfigMap:", style="dim"))
        console.print(Text(f"    {proposals.request(verdict.proposal)}"))
    shown = verdict.nodes[:MOST_NODES]
    _print(_nodes([_words(each) for each in shown], on), console)
    if more := len(verdict.nodes) - len(shown):
        console.print(Text(f"  and {more} nodes more: -o json has them all", style="dim"))
    if verdict.trace:
        console.print(Text(f"  trace {verdict.trace}", style="dim"))


def _print(lines: Iterable[Text], console: Console) -> None:
    for line in lines:
        console.print(line)


def _nodes(rows: Sequence[tuple[str, ...]], on: page.Page) -> list[Text]:
    """A table where it fits the page, else a paragraph for each node."""
    if not rows:
        return []
    table = view.columns([HEADING, *rows])
    room = on.room(2)
    if room is None or max(map(len, table)) <= room:
        return [Text("  ").append_text(line) for line in table]
    return [line for row in rows for line in _paragraph(row, on)]


def _paragraph(row: tuple[str, ...], on: page.Page) -> list[Text]:
    node, reason, resource, wanted, *numbers, hint = row
    counts = [
        f"{number} {name.lower()}" for name, number in zip(HEADING[4:8], numbers, strict=True)
    ]
    parts = (reason, f"{wanted} {resource} wanted", ", ".join(counts), hint)
    head = Text(node, style="bold")
    return on.flow([head, *(Text(part) for part in parts if part)], 2, 4)


def _words(found: Finding) -> tuple[str, ...]:
    numbers = (found.wanted, found.total, found.free, found.held, found.unhealthy)
    return found.node, found.reason, found.resource, *map(str, numbers), found.hint


def _trial(book: Book, verdict: Verdict) -> str:
    """The command that plays a proposal; empty where the catalogue has not all of the GPUs."""
    proposal = verdict.proposal
    inventory = book.inventories.get(proposal.node) if proposal else None
    if proposal is None or inventory is None:
        return ""
    ledger = book.ledgers.get(proposal.node)
    try:
        return proposals.trial(proposal, inventory, ledger, _model)
    except catalogue.UnknownModelError:
        return ""


def _model(product: str) -> str:
    return catalogue.model_of_product(product).name


def _unknown(book: Book, key: str) -> str:
    if book.waiting is None:
        return f"nothing is known of {key}: no controller has told of pods that wait; does one run?"
    held = {
        row.holder.pod_key
        for ledger in book.ledgers.values()
        for row in ledger.rows
        if row.holder is not None
    }
    hint = suggest.did_you_mean(key, {*held, *(each.pod for each in book.waiting.pods)})
    nearest = f": {hint}" if hint else ""
    return f"no pod {key} waits, has failed or holds a slot{nearest}"
