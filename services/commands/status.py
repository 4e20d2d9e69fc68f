"""`slicewire status [NODE]`: the fleet, or a node with its GPUs, configs and changes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from services.commands import access, watching
from services.views import console as view
from services.views import fleet, fleet_lines, node_lines, page, waiting
from services.views.book import Book
from shared.bus.connection import Bus
from shared.sharing import suggest

NAME = "status"


def main(argv: Sequence[str]) -> int:
    """Run the command."""
    parser = access.Parser(NAME, "Show each GPU's slots, health and config.")
    parser.add_argument("node", nargs="?", metavar="NODE", help="only this node, in full")
    parser.add_argument(
        "--all", action="store_true", help="a line for each node, also where nothing is wrong"
    )
    parser.add_argument("--watch", action="store_true", help="follow the bus until Ctrl-C")
    parser.add_bus(os.environ)
    arguments = parser.read(argv)
    json = arguments.output == "json"
    parser.check_given(arguments.node)
    if arguments.watch and json:
        parser.refuse("--watch is for people: programs ask for one object as often as they want")
    work = follow if arguments.watch else show
    return access.run(lambda: work(arguments), NAME, json=json)


async def show(arguments: argparse.Namespace) -> int:
    """Read the bus and print; status 1 where the node is not known."""
    async with access.opened(arguments) as bus:
        book = await access.read_book(bus)
    form = chosen(book, fleet.Forms(), arguments.node)
    json = arguments.output == "json"
    if sentence := _unknown(book, arguments.node):
        return access.fail(NAME, sentence, json=json, form=form)
    if json:
        access.print_json(form)
    else:
        write(form, view.open_console(sys.stdout), arguments)
    return 0


async def follow(arguments: argparse.Namespace) -> int:
    """Draw anew what changes, until told to end; status 1 where the node is not known."""
    async with access.opened(arguments) as bus, access.following(bus) as book:
        if sentence := _unknown(book, arguments.node):
            return access.fail(NAME, sentence, json=False)
        console, forms = view.open_console(sys.stdout), fleet.Forms()

        def draw(form: Mapping[str, Any], height: int | None) -> list[Text]:
            return _bus(bus) + lines(form, page.of(console, height=height), arguments)

        await watching.watch(console, book.news, lambda: chosen(book, forms, arguments.node), draw)
    return 0


def chosen(book: Book, forms: fleet.Forms, node: str | None) -> dict[str, Any]:
    """The answer; of one node where one was asked for, and then without what waits elsewhere."""
    states = book.states()
    if node is None:
        why = waiting.summary(states, book.waiting)
        controller = book.controller.form() if book.controller else None
        return forms.of(states, book.waiting) | {"why": why, "controller": controller}
    return forms.of(each for each in states if each.name == node)


def write(form: Mapping[str, Any], console: Console, arguments: argparse.Namespace) -> None:
    """Write the answer for people."""
    for line in lines(form, page.of(console), arguments):
        console.print(line)


def lines(form: Mapping[str, Any], on: page.Page, arguments: argparse.Namespace) -> list[Text]:
    """Draw the answer: a node that was asked for in full."""
    if arguments.node is None:
        return fleet_lines.draw(form, on, every=arguments.all)
    if not form["nodes"]:  # while it was watched
        return [Text(f"nobody says anything of {arguments.node} any more", style="bold red")]
    return [line for node in form["nodes"] for line in node_lines.draw(node, on)]


def _unknown(book: Book, node: str | None) -> str:
    """Say that a node that was asked for is not there; that there is none at all is but noted."""
    if node is not None and node not in book.nodes:
        return f"no node {node}; {suggest.among(node, book.nodes)}"
    if not book.nodes:
        sys.stderr.write("slicewire status: no node has said anything on this bus yet\n")
    return ""


def _bus(bus: Bus) -> list[Text]:
    if bus.connected:
        return []
    return [Text("the bus is away: this is what was heard last", style="bold red")]
