"""`slicewire rehearse FILE...`: play stories and say whether all that was expected was seen."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Sequence

from services.commands import access, playing
from services.rehearsal.story import Story
from services.views import console as view


def main(argv: Sequence[str]) -> int:
    """Run the command."""
    parser = access.Parser(
        "rehearse", "Play stories on an embedded cluster with simulated GPUs; docs/rehearsal.md."
    )
    parser.add_argument("files", nargs="+", metavar="FILE", type=pathlib.Path, help="a story")
    playing.add_targets(parser)
    arguments = parser.read(argv)
    read = [playing.read(_text(path, parser), str(path)) for path in arguments.files]
    json = arguments.output == "json"
    return playing.run(lambda: rehearse(read, json=json, targets=arguments.targets))


async def rehearse(
    read: Sequence[Story | playing.Played], *, json: bool, targets: pathlib.Path | None
) -> int:
    """Play one story after the other, unless one of them is wrong; the worst status counts."""
    console = view.open_console(sys.stderr if json else sys.stdout)
    played = [each for each in read if isinstance(each, playing.Played)]
    if not played:
        played = [
            await playing.play(story, console, targets=targets)
            for story in read
            if not isinstance(story, playing.Played)
        ]
    status = max(each.status for each in played)
    if json:
        forms = [each.form for each in played]
        access.print_json(forms[0] if len(forms) == 1 else {"ok": not status, "files": forms})
    return status


def _text(path: pathlib.Path, parser: access.Parser) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        parser.refuse(f"cannot read {path}: {error}")
