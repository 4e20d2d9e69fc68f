"""Play stories for `rehearse` and `demo`: read, open a cluster, play, tell, end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pathlib
import shlex
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from services.commands import access
from services.rehearsal import engine, language
from services.rehearsal.embedded import cluster as clusters
from services.rehearsal.embedded.cluster import Cluster
from services.rehearsal.embedded.playing import Embedded
from services.rehearsal.narrate import Narrator
from services.rehearsal.outcome import Outcome
from services.rehearsal.real import limits, stage
from services.rehearsal.stage import StageError
from services.rehearsal.story import Story
from shared.contract.table import Role
from shared.domain.errors import Problem, RefusedError
from shared.runtime import clock
from shared.simulation.broker import BrokerError

WRONG_FILE, NOT_SEEN = 2, 1


@dataclass(frozen=True, slots=True)
class Played:
    """What came of one file: exit status and the object that `-o json` prints."""

    status: int
    form: dict[str, Any]


def add_targets(parser: access.Parser) -> None:
    """Add the flag by which a rehearsal can be watched in Prometheus."""
    parser.add_argument(
        "--targets",
        metavar="FILE",
        type=pathlib.Path,
        help="let the services show their metrics, and write there where, as Prometheus'"
        " file_sd_configs reads it",
    )


def read(text: str, file: str, *, real: bool = False) -> Story | Played:
    """Read a story; a wrong one, or one that no real cluster plays, is explained on stderr."""
    try:
        if real:
            return limits.checked(language.read(text, file, stage.WITHIN_S))
        return language.read(text, file)
    except RefusedError as refused:
        for problem in refused.problems:
            sys.stderr.write(f"{file}: {problem.sentence()}\n")
        wrong = Outcome(file=file, ok=False, seconds=0.0, results=())
        return Played(WRONG_FILE, wrong.form() | {"errors": language.explain(refused)})


async def play_on(story: Story, console: Console, where: stage.Where) -> Played:
    """Play one story on a real cluster, which is afterwards as it was."""
    narrator = Narrator(console)
    narrator.begin(story)
    narrator.on(f"{where.access.server}, by the release in namespace {where.namespace}")
    try:
        async with stage.opened(story, where) as real:
            outcome = await engine.play(story, real, narrator.tell)
    except StageError as error:
        narrator.warn([str(error)])
        refused = Outcome(file=story.file, ok=False, seconds=0.0, results=())
        problem = Problem("", 0, 0, str(error))
        return Played(NOT_SEEN, refused.form() | access.refusal((problem,)))
    narrator.end(outcome, len(story.steps))
    return Played(0 if outcome.ok else NOT_SEEN, outcome.form())


async def play(
    story: Story, console: Console, *, keep: bool = False, targets: pathlib.Path | None = None
) -> Played:
    """Play one story on a cluster of its own; with `keep` the cluster then stays until stopped.

    `targets` is a file that is to say where the services show their metrics.
    """
    narrator = Narrator(console)
    narrator.begin(story)
    began = clock.loop_time()
    async with clusters.opened(story, targets) as cluster:
        _log_to(cluster)
        narrator.up(clock.loop_time() - began, len(list(cluster.processes)))
        narrator.warn(cluster.troubles)
        logs = f"logs of all services: {cluster.folder}/logs"
        try:
            outcome = await engine.play(story, Embedded(cluster), narrator.tell)
        except asyncio.CancelledError:
            narrator.warn([f"stopped; {logs}"])
            raise
        narrator.end(outcome, len(story.steps))
        cluster.keep = not outcome.ok
        if cluster.keep:
            narrator.warn([*cluster.ended_badly(), logs])
        if keep:
            console.print(_how_to_talk(cluster))
            with contextlib.suppress(asyncio.CancelledError):  # a Ctrl-C is how it is to end
                await asyncio.Event().wait()
    return Played(0 if outcome.ok else NOT_SEEN, outcome.form())


def run(work: Callable[[], Awaitable[int]]) -> int:
    """Run a command until it ends or is told to; whatever was started is ended in either case."""
    try:
        return asyncio.run(access.until_told(work))
    except BrokenPipeError:  # as of `| head`: the command line ends it without a word
        raise
    except asyncio.CancelledError:
        return NOT_SEEN
    except (BrokerError, OSError) as error:
        sys.stderr.write(f"slicewire: the cluster did not start: {error}\n")
        return NOT_SEEN


def _log_to(cluster: Cluster) -> None:
    """Send what the stand-ins log in this process to a file beside the services' logs."""
    logging.basicConfig(
        filename=cluster.folder / "logs" / "rehearsal.log", level=logging.INFO, force=True
    )


def _how_to_talk(cluster: Cluster) -> Text:
    user, password_file = cluster.broker.credentials(Role.COMMAND)
    program = shlex.quote(sys.argv[0])  # by make, it stands in no PATH
    lines = (
        "The cluster goes on until Ctrl-C. In another terminal:",
        f"  export SLICEWIRE_BUS_URL={cluster.broker.url} SLICEWIRE_BUS_USER={user}",
        f"  export SLICEWIRE_BUS_PASSWORD_FILE={shlex.quote(str(password_file))}",
        f"  {program} status",
        f"  kubectl --server {cluster.api_url} get pods,events -A",
    )
    return Text("\n" + "\n".join(lines))
