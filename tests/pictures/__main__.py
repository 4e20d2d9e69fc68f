"""`python -m tests.pictures`: play a story and draw docs/pictures anew; look at them afterwards."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import io
import pathlib
import re
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from services.commands import status
from services.rehearsal import engine, language
from services.rehearsal.embedded import cluster as clusters
from services.rehearsal.embedded.cluster import Cluster
from services.rehearsal.embedded.playing import Embedded
from services.rehearsal.outcome import Result
from services.rehearsal.story import Say, Step, Story
from services.views import console as view
from services.views import fleet, page, spantree, trace_lines
from shared.bus import logs
from shared.runtime import clock

STORY = pathlib.Path(__file__).with_name("fleet.yaml")
FOLDER = pathlib.Path(__file__).parents[2] / "docs" / "pictures"
MOMENT = "picture: "
WIDTH = 110
NODE = "gpu-c"
EVICTED = "evict pod"  # a step of the trace that is drawn
FONT = re.compile(r"\s*@font-face \{.*?\n    \}\n", re.DOTALL)  # fetched from afar, else


def main() -> int:
    """Draw them; 1 where the story went another way."""
    story = language.read(STORY.read_text(encoding="utf-8"), STORY.name)
    return asyncio.run(_play(story))


async def _play(story: Story) -> int:
    async with clusters.opened(story) as cluster:
        stage = Embedded(cluster)
        for part, name in _parts(story):
            outcome = await engine.play(part, stage, _complain)
            if not outcome.ok:
                return 1
            _save(name, await _drawn(name, cluster))
        cluster.keep = False
    return 0


def _parts(story: Story) -> list[tuple[Story, str]]:
    """The story cut at its moments, each part with the name of the picture that ends it."""
    parts: list[tuple[Story, str]] = []
    steps: list[Step] = []
    for step in story.steps:
        if isinstance(step.action, Say) and step.action.text.startswith(MOMENT):
            name = step.action.text.removeprefix(MOMENT).strip()
            parts.append((dataclasses.replace(story, steps=tuple(steps)), name))
            steps = []
        else:
            steps.append(step)
    return parts


def _complain(result: Result) -> None:
    if not result.ok:
        sys.stderr.write(f"line {result.step.line}: {result.why}\n")


async def _drawn(name: str, cluster: Cluster) -> tuple[str, page.Page, Sequence[Text]]:
    on = _page()
    if name == "trace":
        traces = spantree.traces(await logs.read_spans(cluster.bus))
        newest = next(
            trace for trace in traces if any(span.name == EVICTED for span in trace.spans)
        )
        form = newest.form(spantree.linked(newest, traces))
        lines = trace_lines.heading(form, on) + trace_lines.tree(form["spans"], on)
        return f"slicewire trace {NODE}", on, lines
    words = argparse.Namespace(node=NODE if name == "node" else None, all=False)
    form = status.chosen(cluster.book, fleet.Forms(), words.node)
    return f"slicewire status {words.node or ''}", on, status.lines(form, on, words)


def _page() -> page.Page:
    console = Console(
        file=io.StringIO(),
        width=WIDTH,
        record=True,
        force_terminal=True,
        color_system="truecolor",
        highlight=False,
        markup=False,
        emoji=False,
    )
    return page.Page(console=console, signs=view.MARKS, now_ns=clock.now_ns(), width=WIDTH)


def _save(name: str, drawn: tuple[str, page.Page, Sequence[Text]]) -> None:
    title, on, lines = drawn
    for line in lines:
        on.console.print(line)
    svg = on.console.export_svg(title=title, unique_id=f"slicewire-{name}")
    (FOLDER / f"{name}.svg").write_text(FONT.sub("\n", svg), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
