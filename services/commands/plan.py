"""`slicewire plan`: what texts for sharing and MIG would do to GPUs, offline, or why nothing."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import pathlib
import sys
from collections.abc import Callable, Collection, Iterator, Sequence

from services.commands import access, plan_choice, plan_gpus, plan_holders, plan_mig, plan_state
from services.views import console as view
from services.views import page, planned, planned_lines
from shared.domain.errors import Place, Problem, RefusedError
from shared.domain.sharing import SharingConfig, SourceKind
from shared.sharing import load, manifest, select, shares


def main(argv: Sequence[str]) -> int:
    """Run the command: 0 the texts would serve, 1 one would be refused, 2 the call is wrong."""
    parser = access.Parser("plan", "Say what texts would do, without touching anything.")
    parser.add_argument(
        "--sharing", metavar="FILE", required=True, help="sharing text, or a ConfigMap manifest"
    )
    parser.add_argument("--key", metavar="KEY", help="key of the ConfigMap [chosen as for a node]")
    parser.add_argument("--mig", metavar="FILE", help="mig-parted text, or a ConfigMap manifest")
    parser.add_argument(
        "--mig-config", metavar="NAME", help="name in it, or a built-in one like all-balanced"
    )
    parser.add_argument(
        "--gpus", metavar="MODELS", required=True, help="GPUs in index order: a100-80gb=2,t4=1"
    )
    parser.add_argument("--state", metavar="FILE", help="MIG mode, instances and holders, as YAML")
    parser.add_argument("--node-labels", metavar="K=V,...", default="", help="for the key's choice")
    parser.add_argument("--values", metavar="FILE", help="chart values with the selection rules")
    arguments = parser.read(argv)
    if arguments.mig and not arguments.mig_config:
        parser.refuse("--mig needs --mig-config: which name of the text is wanted?")
    try:
        return _answer(arguments)
    except (_UnreadableError, plan_state.StateError, plan_choice.ChoiceError) as error:
        parser.refuse(str(error))


class _UnreadableError(Exception):
    """A file that a flag names cannot be read; the text says which and why."""


class _Refusal(Exception):  # noqa: N818  # what the command answers, no failure of it
    """A file or a name is refused."""

    def __init__(self, source: str, problems: tuple[Problem, ...]) -> None:
        super().__init__(source)
        self.source = source
        self.problems = problems


def _answer(arguments: argparse.Namespace) -> int:
    try:
        plan = _plan(arguments)
    except _Refusal as refusal:
        return _refuse(arguments, refusal)
    if arguments.output == "json":
        access.print_json(planned.form(plan))
    else:
        console = view.open_console(sys.stdout)
        for line in planned_lines.draw(plan, page.of(console)):
            console.print(line)
    return 0


def _plan(arguments: argparse.Namespace) -> planned.Plan:
    """Plan the geometry first, then sharing on the GPUs that come of it."""
    body, mig = _text(arguments.sharing), _optional(arguments.mig)
    state = plan_state.read(_optional(arguments.state))
    found = plan_gpus.made(plan_gpus.models(arguments.gpus), state)
    gpus = tuple(board.gpu for board in found)
    labels = plan_choice.labels(arguments.node_labels)
    values = plan_choice.read(_optional(arguments.values))
    cut = plan_mig.Done(found)
    if arguments.mig_config:
        with _about(arguments.mig or arguments.mig_config):
            cut = plan_mig.cut(mig, arguments.mig_config, found, state)
    with _about(arguments.sharing):
        key, config = _config(
            body,
            lambda keys: plan_choice.choose(keys, arguments.key, labels, gpus, values.choice),
            values.unshared,
        )
        wanted = shares.shares(tuple(board.gpu for board in cut.boards), config).shares
        held = plan_holders.slots(state.without(cut.evictions), gpus, wanted)
        forms = plan_holders.forms(state, held)
        plan = planned.make(key, config, cut.boards, held, cut.evictions, forms=forms)
    unused = () if arguments.key in (None, key) else (_unused(arguments.key),)
    return dataclasses.replace(plan, warnings=cut.warnings + plan.warnings + unused)


def _unused(key: str) -> Problem:
    message = f"--key {key} chooses nothing: the file is a bare text, not a ConfigMap"
    return Problem("", 0, 0, message)


@contextlib.contextmanager
def _about(source: str) -> Iterator[None]:
    """Say which file a refusal is about."""
    try:
        yield
    except RefusedError as error:
        raise _Refusal(source, error.problems) from None


def _refuse(arguments: argparse.Namespace, refusal: _Refusal) -> int:
    if arguments.output == "json":
        access.print_json(access.refusal(refusal.problems) | {"warnings": []})
    else:
        for problem in refusal.problems:
            sys.stderr.write(f"{refusal.source}: {problem.sentence()}\n")
    return 1


def _config(
    body: str, choose: Callable[[Collection[str]], select.Selected], unshared: SharingConfig
) -> tuple[str, SharingConfig]:
    """Return the chosen key ("" for a bare text) and what its text says, placed in the file."""
    texts = manifest.texts(body)
    if texts is None:
        return "", load.load(body, unshared)
    chosen = choose(texts.keys())
    if chosen.kind is SourceKind.NONE:
        return "", dataclasses.replace(unshared, warnings=(chosen.problem,))
    if not chosen.found:
        raise RefusedError((chosen.problem,))
    text = texts[chosen.key]
    try:
        return chosen.key, _placed(load.load(text.text, unshared), text)
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
            replicas_place=place(entry.replicas_place),
            device_places=tuple(place(each) for each in entry.device_places),
        )
        for entry in config.resources
    )
    warnings = tuple(text.placed(warning) for warning in config.warnings)
    return dataclasses.replace(config, resources=resources, warnings=warnings)


def _optional(path: str | None) -> str:
    return _text(path) if path else ""


def _text(path: str) -> str:
    try:
        return pathlib.Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _UnreadableError(f"cannot read {path}: {error}") from None
