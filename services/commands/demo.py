"""`slicewire demo`: play the shipped story, which shows the product from one end to the other."""

from __future__ import annotations

import argparse
import importlib.resources
import sys
from collections.abc import Sequence

from services.commands import access, playing
from services.rehearsal.story import Story
from services.views import console as view

STORY = "demo.yaml"


def main(argv: Sequence[str]) -> int:
    """Run the command."""
    parser = access.Parser(
        "demo",
        "Play the shipped story: a whole cluster on this machine, with simulated GPUs. Under a"
        " minute; exit status 0 only if every step was seen.",
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave the cluster running and say how to talk to it"
    )
    parser.add_argument("--show", action="store_true", help="print the story instead of playing it")
    playing.add_targets(parser)
    arguments = parser.read(argv)
    if arguments.show:
        sys.stdout.write(text())
        return 0
    story = playing.read(text(), STORY)
    if isinstance(story, playing.Played):
        return story.status
    return playing.run(lambda: demo(story, arguments))


def text() -> str:
    """The story as it is shipped; deploy/examples/demo.yaml is the same file."""
    stories = importlib.resources.files("services.rehearsal").joinpath("stories")
    return stories.joinpath(STORY).read_text(encoding="utf-8")


async def demo(story: Story, arguments: argparse.Namespace) -> int:
    """Play the story."""
    json = arguments.output == "json"
    console = view.open_console(sys.stderr if json else sys.stdout)
    played = await playing.play(story, console, keep=arguments.keep, targets=arguments.targets)
    if json:
        access.print_json(played.form)
    return played.status
