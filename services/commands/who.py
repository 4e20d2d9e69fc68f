"""`slicewire who`: the pods that hold slots of a GPU, of a node, or what one pod holds."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Sequence

from rich.console import Console
from rich.text import Text

from services.commands import access
from services.views import console as view
from services.views import holders, page, silence
from services.views.book import Book
from shared.domain import slots
from shared.runtime import clock
from shared.sharing import suggest

NAME = "who"
HEADING = ("NODE", "GPU", "POD", "CONTAINER", "RESOURCE", "SLOT", "SINCE")


def main(argv: Sequence[str]) -> int:
    """Run the command."""
    parser = access.Parser("who", "Name the pods that hold slots.")
    about = parser.add_mutually_exclusive_group(required=True)
    about.add_argument("--gpu", metavar="UUID", help="a GPU or a MIG device")
    about.add_argument("--pod", metavar="NS/NAME", help="a pod")
    about.add_argument("--node", metavar="NODE", help="a node")
    parser.add_bus(os.environ)
    arguments = parser.read(argv)
    if arguments.pod is not None:
        parser.check_pod(arguments.pod, "--pod")
    parser.check_given(arguments.gpu, arguments.node)
    return access.run(lambda: show(arguments), NAME, json=arguments.output == "json")


async def show(arguments: argparse.Namespace) -> int:
    """Read the bus and print; status 1 where nothing is known of what was asked about."""
    async with access.opened(arguments) as bus:
        book = await access.read_book(bus)
    found = chosen(book, arguments)
    json = arguments.output == "json"
    form = {"holders": [row.form() for row in found]}
    devices = holders.gpus_of_devices(book.inventories)
    if not found and (sentence := unknown(arguments, book.nodes, devices)):
        return access.fail(NAME, sentence, json=json, form=form)
    if json:
        access.print_json(form)
    else:
        write(found, view.open_console(sys.stdout))
    about = _about(book, found, arguments)
    for sentence in silence.of_nodes(book.states(), about, clock.now_ns()):
        sys.stderr.write(f"slicewire {NAME}: {sentence}\n")
    return 0


def chosen(book: Book, arguments: argparse.Namespace) -> list[holders.HolderRow]:
    """The holders that were asked about."""
    rows = holders.rows(book.ledgers, book.inventories)
    if arguments.gpu is not None:
        return holders.of_gpu(rows, arguments.gpu, holders.gpus_of_devices(book.inventories))
    if arguments.pod is not None:
        return [row for row in rows if row.pod == arguments.pod]
    return [row for row in rows if row.node == arguments.node]


def unknown(arguments: argparse.Namespace, nodes: Collection[str], devices: Collection[str]) -> str:
    """Say that the GPU, the node or the pod is not there; a pod is known by what it holds."""
    gpu, pod, node = arguments.gpu, arguments.pod, arguments.node
    if pod is not None:
        return f"{pod} holds no slot: slicewire why {pod} says why"
    if node is not None:
        return "" if node in nodes else f"no node {node}; {suggest.among(node, nodes)}"
    if gpu in devices:
        return ""
    device = slots.device_of(gpu)
    hint = f"that is a slot of {device}" if device in devices else ""
    hint = hint or suggest.did_you_mean(device, devices) or "slicewire status NODE shows them"
    return f"no GPU or MIG device {gpu}: {hint}"


def _about(
    book: Book, found: Sequence[holders.HolderRow], arguments: argparse.Namespace
) -> set[str]:
    """The nodes that the answer is about; that nobody holds anything may be old as well."""
    having = {
        node
        for node, inventory in book.inventories.items()
        if arguments.gpu in holders.gpus_of_devices({node: inventory})
    }
    return {row.node for row in found} | having | {arguments.node or ""}


def write(found: Sequence[holders.HolderRow], console: Console) -> None:
    """Write the holders for people."""
    if not found:
        console.print("nobody")
        return
    for line in _lines([_words(row) for row in found], page.of(console)):
        console.print(line)


def _lines(rows: Sequence[tuple[str, ...]], on: page.Page) -> list[Text]:
    """A table where it fits the page, else a paragraph for each row, the pod first."""
    table = view.columns([HEADING, *rows])
    if on.width is None or max(map(len, table)) <= on.width:
        return table
    lines: list[Text] = []
    for node, gpu, pod, container, resource, slot, since in rows:
        place = [f"container {container}"] if container else []
        words = (*place, f"{node} GPU {gpu}", resource, slot, f"since {since}")
        lines += on.flow([Text(pod, style="bold"), *map(Text, words)], 0, 4)
    return lines


def _words(row: holders.HolderRow) -> tuple[str, ...]:
    return (
        row.node,
        "?" if row.gpu is None else str(row.gpu),
        row.pod or "(not yet known)",
        row.container or "",
        row.resource,
        row.slot,
        view.moment(row.since),
    )
