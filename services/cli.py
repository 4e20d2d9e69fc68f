"""The console command `slicewire`: finds the sub-command and hands it the rest of the line.

A sub-command imports its service only when chosen, so `slicewire --help` starts fast and a node
image needs no client library of the cluster. Also `python -m services.cli`, for processes that
must run under the very same interpreter.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Sequence

from services.commands import catalogue
from shared import version
from shared.runtime import starting

EPILOG = "Exit status: 0 yes, 1 no (refused, not found, not as expected), 2 the call is wrong."


def usage() -> str:
    """Write the page that `slicewire --help` shows."""
    sections = (
        ("For people", catalogue.PEOPLE),
        ("Services", catalogue.SERVICES),
        ("Simulated hardware", catalogue.SIMULATION),
    )
    width = max(len(command.words) for command in catalogue.ALL)
    lines = [
        "usage: slicewire COMMAND [ARGUMENTS]",
        "",
        "GPU sharing for Kubernetes: slots of time-sliced GPUs, who holds them, and why.",
    ]
    for title, commands in sections:
        lines += ["", f"{title}:"]
        lines += [f"  {command.words:<{width}}  {command.says}" for command in commands]
    lines += ["", "`slicewire COMMAND --help` says more; `slicewire --version` says which this is."]
    lines += ["", EPILOG]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is the sub-command's."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["help"] and len(words) > 1:
        words = [*words[1:], "--help"]
    if words[:1] in (["-h"], ["--help"], ["help"]):
        return _for_people("help", lambda: _say(usage()))
    if words[:1] == ["--version"]:
        return _for_people("--version", lambda: _say(f"slicewire {version.__version__}"))
    found = catalogue.find(words)
    if found is None:
        sys.stderr.write(_not_found(words) + "\n")
        return 2
    command, rest = found
    if command in catalogue.SERVICES:
        starting.end_when_told()
    if command not in catalogue.PEOPLE:
        return command.run(rest)
    return _for_people(command.words, lambda: command.run(rest))


def _for_people(name: str, work: Callable[[], int]) -> int:
    """Do what a person waits for; who has read enough, or interrupts, is told nothing more."""
    if sys.stdout is None:  # closed by the shell (`>&-`): nobody wants to read
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # to the end
    try:
        try:
            return work()
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return 1
    except BrokenPipeError:  # as of `| head`: what is left in our buffers has nobody to go to
        _forget_output()
        return 1
    except OSError as error:  # as of a full disk: what a command reads is its own to explain
        sys.stderr.write(f"slicewire {name}: {error}\n")
        _forget_output()
        return 1


def _forget_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(text: str) -> int:
    sys.stdout.write(f"{text}\n")
    return 0


def _not_found(words: Sequence[str]) -> str:
    if not words:
        return usage()
    if words[0].startswith("-"):
        return f"slicewire: {words[0]} stands before a command: options go after it."
    same = [each.words for each in catalogue.ALL if each.words.split()[0] == words[0]]
    typed = " ".join(words[:2] if same else words[:1])
    known = [each.words for each in catalogue.ALL]
    nearest = same or difflib.get_close_matches(typed, known, n=1)
    hint = (
        f" Did you mean {' or '.join(f'`slicewire {each}`' for each in nearest)}?"
        if nearest
        else ""
    )
    return f"slicewire: there is no command `{typed}`.{hint} See `slicewire --help`."


if __name__ == "__main__":
    sys.exit(main())
