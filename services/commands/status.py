"""`slicewire status [NODE]`: GPUs with slots, health and layout, and configs, as the bus has it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from services.commands import access
from services.views import console as view
from services.views import fleet, layouts

INDENT = " " * 9  # below a GPU's model
PHASE_STYLES = {"success": "default", "failed": "bold red", "idle": "dim"}
SLOT_STATES = ("held", "granted", "retiring", "unhealthy", "free")


def main(argv: Sequence[str]) -> int:
    """Run the command."""
    parser = access.Parser("status", "Show each GPU's slots, health and config.")
    parser.add_argument("node", nargs="?", metavar="NODE", help="only this node")
    parser.add_bus(os.environ)
    arguments = parser.read(argv)
    return access.run(lambda: show(arguments), "status", json=arguments.output == "json")


async def show(arguments: argparse.Namespace) -> int:
    """Read the bus and print; status 1 where the node is not known."""
    async with access.opened(arguments) as bus:
        book = await access.read_book(bus)
    if not book.nodes:
        sys.stderr.write("slicewire status: no node has said anything on this bus yet\n")
    form = fleet.form(book.states())
    if arguments.node is not None:
        form["nodes"] = [node for node in form["nodes"] if node["name"] == arguments.node]
        if book.nodes and not form["nodes"]:
            known = ", ".join(book.nodes)
            sys.stderr.write(f"slicewire status: no node {arguments.node}; known: {known}\n")
    if arguments.output == "json":
        access.print_json(form)
    else:
        write(form, view.open_console(sys.stdout))
    return 1 if arguments.node is not None and not form["nodes"] else 0


def write(form: Mapping[str, Any], console: Console) -> None:
    """Write the answer for people."""
    signs = view.marks(console)
    for node in form["nodes"]:
        console.print(Text(node["name"], style="bold").append_text(_config(node["config"])))
        for line in _change(node["mig"]):
            console.print(line)
        for gpu in node["gpus"]:
            console.print(_gpu(gpu, signs))
            for line in _instances(gpu, signs):
                console.print(line)
        console.print(_services(node["services"]))


def _config(config: Mapping[str, Any]) -> Text:
    if config["state"] is None:
        return Text("  no config resolved yet", style="dim")
    named = f"config {config['key']}" if config["key"] else "no config"
    text = Text(f"  {named} ({config['source']}), generation {config['generation']}", style="dim")
    refused = config["state"] == "refused"
    text.append(f"  {config['state']}", style="bold red" if refused else "default")
    reason = f"  {config['reason']}" if config["reason"] else ""
    return text.append(reason, style="red" if refused else "dim")


def _gpu(gpu: Mapping[str, Any], signs: view.Marks) -> Text:
    counts = {state: gpu["slots"][state] for state in SLOT_STATES}
    text = Text(f"  GPU {gpu['index']}  {gpu['model']}  ").append_text(view.bar(counts, signs))
    if gpu["health"] != "healthy":
        text.append(f"  {signs.no} {gpu['health']}: {gpu['reason']}", style="bold red")
    return text.append(f"  {gpu['uuid']}", style="dim")


def _change(mig: Mapping[str, Any]) -> Iterator[Text]:
    """Say where the wanted MIG layout stands, and who is in its way."""
    if mig["phase"] is None:
        return
    text = Text(f"  MIG layout {mig['config'] or 'as it is'}: ")
    text.append(mig["phase"], style=PHASE_STYLES.get(mig["phase"], "yellow"))
    said = ": ".join(part for part in (mig["reason"], mig["sentence"]) if part)
    yield text.append(f"  {said}" if said else "", style="dim")
    if mig["step"]:
        yield Text(f"    step: {mig['step']}")
    if mig["blockers"]:
        yield Text(f"    in the way: {', '.join(mig['blockers'])}")


def _instances(gpu: Mapping[str, Any], signs: view.Marks) -> Iterator[Text]:
    """Draw the instances of a GPU in MIG mode over its memory slices, and name the sick ones."""
    if gpu["migPending"]:
        yield Text(f"{INDENT}MIG {'off' if gpu['mig'] else 'on'} is pending", style="yellow")
    if gpu["mig"] and not gpu["instances"]:
        yield Text(f"{INDENT}MIG on, no instance", style="dim")
    if not gpu["instances"]:
        return
    cells = [
        layouts.Cell(each["profile"], each["start"], each["size"]) for each in gpu["instances"]
    ]
    bar = layouts.bar(gpu["slices"], cells, layouts.width(cells))
    yield Text(INDENT).append_text(bar)
    for each in gpu["instances"]:
        if each["health"] != "healthy":
            what = f"{each['profile']} at {each['start']} {each['health']}: {each['reason']}"
            yield Text(f"{INDENT}{signs.no} {what}  {each['uuid']}", style="bold red")


def _services(services: Mapping[str, Any]) -> Text:
    said = [
        f"{name} {each['version'] or '?'} at {view.moment(each['seen'])}"
        for name, each in services.items()
    ]
    return Text(f"  last heard: {'; '.join(said) or 'nobody'}", style="dim")
