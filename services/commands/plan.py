"""`slicewire plan`: what a sharing text would do to a set of GPUs, offline, or why it would not."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys
from collections.abc import Callable, Collection, Sequence

from services.commands import access, plan_choice, plan_state
from services.views import console as view
from services.views import planned
from shared.domain.errors import Place, Problem, RefusedError
from shared.domain.sharing import UNSHARED, SharingConfig, SourceKind
from shared.sharing import load, manifest, select, shares


def main(argv: Sequence[str]) -> int:
    """Run the command: 0 the text would serve, 1 it would be refused, 2 the call is wrong."""
    parser = access.Parser("plan", "Say what a sharing text would do, without touching anything.")
    parser.add_argument(
        "--sharing", metavar="FILE", required=True, help="sharing text, or a ConfigMap manifest"
    )
    parser.add_argument("--key", metavar="KEY", help="key of the ConfigMap [chosen as for a node]")
    parser.add_argument(
        "--gpus", metavar="MODELS", required=True, help="GPUs in index order: a100-80gb=2,t4=1"
    )
    parser.add_argument("--state", metavar="FILE", help="MIG mode, instances and holders, as YAML")
    parser.add_argument("--node-labels", metavar="K=V,...", default="", help="for the key's choice")
    parser.add_argument("--values", metavar="FILE", help="chart values with the selection rules")
    arguments = parser.parse_args(argv)
    try:
        return _answer(arguments)
    except (plan_state.StateError, plan_choice.ChoiceError) as error:
        parser.refuse(str(error))
    except (OSError, UnicodeDecodeError) as error:
        parser.refuse(f"a file cannot be read: {error}")


def _answer(arguments: argparse.Namespace) -> int:
    body = pathlib.Path(arguments.sharing).read_text("utf-8")
    state = plan_state.read(_optional(arguments.state))
    boards = plan_state.made(plan_state.models(arguments.gpus), state)
    gpus = tuple(board.gpu for board in boards)
    labels = plan_choice.labels(arguments.node_labels)
    choice = plan_choice.read(_optional(arguments.values))
    try:
        key, config = _config(
            body, lambda keys: plan_choice.choose(keys, arguments.key, labels, gpus, choice)
        )
        wanted = shares.shares(gpus, config).shares
        held = plan_state.holders(state, gpus, wanted)
        plan = planned.make(key, config, boards, held)
    except RefusedError as error:
        return _refuse(arguments, error.problems)
    if arguments.output == "json":
        access.print_json(planned.form(plan))
    else:
        planned.write(plan, view.open_console(sys.stdout))
    return 0


def _refuse(arguments: argparse.Namespace, problems: tuple[Problem, ...]) -> int:
    if arguments.output == "json":
        errors = [planned.problem_form(problem) for problem in problems]
        access.print_json({"ok": False, "errors": errors, "warnings": []})
    else:
        for problem in problems:
            sys.stderr.write(f"{arguments.sharing}: {problem.sentence()}\n")
    return 1


def _config(
    body: str, choose: Callable[[Collection[str]], select.Selected]
) -> tuple[str, SharingConfig]:
    """Return the chosen key ("" for a bare text) and what its text says, placed in the file."""
    texts = manifest.texts(body)
    if texts is None:
        return "", load.load(body)
    chosen = choose(texts.keys())
    if chosen.kind is SourceKind.NONE:
        warning = Problem("data", 0, 0, chosen.sentence)
        return "", dataclasses.replace(UNSHARED, warnings=(warning,))
    if not chosen.found:
        raise RefusedError((Problem("data", 0, 0, chosen.sentence),))
    text = texts[chosen.key]
    try:
        return chosen.key, _placed(load.load(text.text), text)
    except RefusedError as error:
        raise RefusedError(tuple(text.placed(problem) for problem in error.problems)) from None


def _placed(config: SharingConfig, text: manifest.Text) -> SharingConfig:
    """Return a config whose places count in the file, for refusals that need the GPUs."""

    def place(inside: Place) -> Place:
        moved = text.placed(Problem("", inside.line, inside.column, ""))
        return Place(moved.line, moved.column)

    resources = tuple(
        dataclasses.replace(
            entry,
            place=place(entry.place),
            device_places=tuple(place(each) for each in entry.device_places),
        )
        for entry in config.resources
    )
    warnings = tuple(text.placed(warning) for warning in config.warnings)
    return dataclasses.replace(config, resources=resources, warnings=warnings)


def _optional(path: str | None) -> str:
    return pathlib.Path(path).read_text("utf-8") if path else ""
