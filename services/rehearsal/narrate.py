"""Results → what people read while a story is played. It prints only what was observed.

A line a step, then one line for each thing seen; steps that only speak become headings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from services.rehearsal.outcome import Outcome, Result
from services.rehearsal.story import (
    NAMED,
    About,
    Condition,
    ConfigMap,
    Expect,
    Never,
    Node,
    Say,
    Story,
    plain,
)
from services.views import console as view
from services.views import trace_lines
from services.views.page import Page

MARGIN = 11
NESTED = [each.value for each in About if each not in NAMED]
TEXT_LINES = 14  # of a ConfigMap's text; more is cut with a word


class Narrator:
    """Writes a story to a console as it is played."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._marks = view.marks(console)
        self._page = Page(console=console, signs=self._marks, now_ns=0)
        self._texts: dict[str, Mapping[str, str]] = {}  # of ConfigMaps, as told last

    def begin(self, story: Story) -> None:
        """Say what the story is played on."""
        self._texts = dict(story.config_maps)
        self._console.print(Text(story.file, style="bold"))
        for node in story.nodes:
            self._console.print(Text(f"  node {node.name}: {_gpus(node)}"))

    def up(self, seconds: float, processes: int) -> None:
        """Say that the cluster stands."""
        words = f"up in {seconds:.1f} s: nats-server, an API server, {processes} service processes"
        self._console.print(Text(f"  {words}", style="dim"))

    def on(self, words: str) -> None:
        """Say on which cluster it is played."""
        self._console.print(Text(f"  on {words}", style="dim"))

    def warn(self, sentences: Iterable[str]) -> None:
        """Say what is not as it should be, besides the steps."""
        for sentence in sentences:
            self._console.print(Text(f"  ! {sentence}", style="yellow"))

    def tell(self, result: Result) -> None:
        """Say what came of a step."""
        action = result.step.action
        if isinstance(action, Say):
            self._console.print()
            self._print(Text(action.text.strip(), style="bold"), indent=0)
            return
        self._console.print(self._headline(result))
        for line in self._details(result):
            self._print(line)
        if result.why:
            self._print(Text(result.why, style="red"))

    def end(self, outcome: Outcome, steps: int) -> None:
        """Say how the whole came out."""
        played = sum(not isinstance(each.step.action, Say) for each in outcome.results)
        bad = [result for result in outcome.results if not result.ok]
        self._console.print()
        if outcome.ok:
            which = "the only step was" if played == 1 else f"all {played} steps were"
            words = f"{which} as expected, in {outcome.seconds:.1f} s"
            self._console.print(Text(f"{self._marks.yes} {words}", style="bold green"))
            return
        lines = ", ".join(str(result.step.line) for result in bad)
        left = steps - len(outcome.results)
        rest = f"; {left} step{'' if left == 1 else 's'} not played" if left else ""
        words = f"not as expected: line {lines}{rest}"
        self._console.print(Text(f"{self._marks.no} {words}", style="bold red"))

    def _print(self, line: Text, indent: int = MARGIN) -> None:
        """Print below the headline's words; only a terminal has a width to stay within."""
        if self._console.is_terminal:
            self._console.print(Padding(line, (0, 0, 0, indent), expand=False), soft_wrap=False)
        else:
            self._console.print(Text(" " * indent).append_text(line))

    def _headline(self, result: Result) -> Text:
        looks = isinstance(result.step.action, Expect | Never)
        good = self._marks.yes if looks else self._marks.act
        mark = good if result.ok else self._marks.no
        style = ("green" if looks else "bold") if result.ok else "bold red"
        line = Text("  ").append(f"{mark:<2}", style=style)
        line.append(f"{result.seconds:5.1f} s ", style="dim")
        return line.append(self._subject(result))

    def _subject(self, result: Result) -> str:
        action = result.step.action
        if isinstance(action, Expect):
            stays = f" (for {action.for_s:g} s)" if action.for_s else ""
            return " and ".join(_about(each) for each in action.conditions) + stays
        return action.words()

    def _details(self, result: Result) -> list[Text]:
        if isinstance(result.step.action, ConfigMap):
            return self._changed_texts(result.step.action)
        lines: list[Text] = []
        for key, value in result.seen.items():
            nested = key in NESTED and isinstance(value, Mapping)
            for inner, each in value.items() if nested else ((key, value),):
                lines += self._seen(inner, each)
        return lines

    def _changed_texts(self, action: ConfigMap) -> list[Text]:
        """The keys of a ConfigMap that a step changes, with their new texts."""
        before, after = self._texts.get(action.name, {}), action.data or {}
        self._texts[action.name] = after
        lines: list[Text] = []
        for key, text in after.items():
            if text != before.get(key):
                lines += _text(key, text)
        return lines + [Text(f"{key}: gone", style="dim") for key in before if key not in after]

    def _seen(self, key: str, value: Any) -> list[Text]:
        drawers: Mapping[str, Callable[[Any], list[Text]]] = {
            "slots": self._slots,
            "env": _pairs,
            "labels": _pairs,
            "holders": _holders,
            "tree": lambda branches: trace_lines.tree(branches, self._page),
        }
        draws = key in drawers and isinstance(value, Mapping | list)
        drawn = drawers[key](value) if draws else [Text(_short(value))]
        lead = f"{key} " if key not in {"tree", "holders"} else ""
        lines = [Text(lead, style="dim").append_text(line) for line in drawn[:1]]
        return lines + [Text(" " * len(lead)).append_text(line) for line in drawn[1:]]

    def _slots(self, value: Any) -> list[Text]:
        if not isinstance(value, Mapping):
            return [Text(_short(value))]
        return [
            Text(f"{resource} ").append_text(view.bar(counts, self._marks))
            if isinstance(counts, Mapping) and any(counts.values())
            else Text(f"{resource} {plain(counts)}")  # asked of some states only, none is no slot
            for resource, counts in value.items()
        ]


def _about(condition: Condition) -> str:
    given = ", ".join(f"{key} {plain(value)}" for key, value in condition.given.items())
    return " ".join(part for part in (condition.about.value, condition.name, given) if part)


def _gpus(node: Node) -> str:
    models = Counter(each if isinstance(each, str) else each["model"] for each in node.gpus)
    return ", ".join(f"{count} x {model}" for model, count in models.items()) or "no GPU"


def _text(key: str, text: str) -> list[Text]:
    written = text.rstrip().splitlines()
    lines = [Text(f"{key}:", style="dim")]
    lines += [Text(f"  {each}", style="italic") for each in written[:TEXT_LINES]]
    if len(written) > TEXT_LINES:
        lines.append(Text(f"  ({len(written) - TEXT_LINES} more lines)", style="dim"))
    return lines


def _pairs(value: Mapping[str, Any]) -> list[Text]:
    return [Text(f"{name}={_short(each)}") for name, each in value.items()]


def _holders(rows: list[Mapping[str, Any]]) -> list[Text]:
    return [
        Text(row["pod"] or "(not yet known)", style="bold").append(
            f"  {row['slot']}", style="not bold"
        )
        for row in rows
    ]


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {plain(each)}" for key, each in value.items())
    return plain(value)
