"""`slicewire rehearse FILE...`: play stories and say whether all that was expected was seen."""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from rich.console import Console

from services.commands import access, playing
from services.rehearsal.real import kubeconfig, stage
from services.rehearsal.story import Story
from services.views import console as view

Play: TypeAlias = Callable[[Story, Console], Awaitable[playing.Played]]


def main(argv: Sequence[str]) -> int:
    """Run the command."""
    parser = access.Parser(
        "rehearse",
        "Play stories on an embedded cluster with simulated GPUs, or on a real one on which the"
        " chart is installed; docs/rehearsal.md.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", type=pathlib.Path, help="a story")
    playing.add_targets(parser)
    _add_cluster(parser)
    arguments = parser.read(argv)
    where = _where(arguments, parser)
    read = [
        playing.read(_text(path, parser), str(path), real=where is not None)
        for path in arguments.files
    ]

    def play(story: Story, console: Console) -> Awaitable[playing.Played]:
        if where is not None:
            return playing.play_on(story, console, where)
        return playing.play(story, console, targets=arguments.targets)

    json = arguments.output == "json"
    return playing.run(lambda: rehearse(read, play, json=json))


async def rehearse(read: Sequence[Story | playing.Played], play: Play, *, json: bool) -> int:
    """Play one story after the other, unless one of them is wrong; the worst status counts."""
    console = view.open_console(sys.stderr if json else sys.stdout)
    played = [each for each in read if isinstance(each, playing.Played)]
    if not played:
        played = [
            await play(story, console) for story in read if not isinstance(story, playing.Played)
        ]
    status = max(each.status for each in played)
    if json:
        forms = [each.form for each in played]
        access.print_json(forms[0] if len(read) == 1 else {"ok": not status, "files": forms})
    return status


def _add_cluster(parser: access.Parser) -> None:
    group = parser.add_argument_group("a real cluster")
    group.add_argument(
        "--kubeconfig",
        metavar="FILE",
        type=pathlib.Path,
        help="play on the cluster of this file's current context",
    )
    group.add_argument(
        "--namespace", default="slicewire", help="namespace of the release there [%(default)s]"
    )
    group.add_argument(
        "--image",
        default="busybox:stable",
        help="what the story's pods run there: any image with sh, env and sleep [%(default)s]",
    )


def _where(arguments: argparse.Namespace, parser: access.Parser) -> stage.Where | None:
    if arguments.kubeconfig is None:
        return None
    if arguments.targets is not None:
        parser.refuse("--targets is for the embedded cluster: a release's pods say it themselves")
    try:
        found = kubeconfig.read(arguments.kubeconfig)
    except kubeconfig.KubeconfigError as error:
        parser.refuse(str(error))
    return stage.Where(found, arguments.namespace, arguments.image)


def _text(path: pathlib.Path, parser: access.Parser) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        parser.refuse(f"cannot read {path}: {error}")
