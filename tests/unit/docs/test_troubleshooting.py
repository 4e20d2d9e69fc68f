"""docs/troubleshooting.md names every reason, refusal and warning that there is, and no other."""

from __future__ import annotations

import ast
import functools
import pathlib
import re

import pytest
import yaml

from services.reconfigurer.agent import memory
from services.reconfigurer.controller import outcome, prepare
from shared.contract import names
from shared.waiting import reasons as waiting

ROOT = pathlib.Path(__file__).parents[3]
ALERTS = ROOT / "deploy" / "chart" / "alerts.yaml"
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
WORD = re.compile(r"[A-Z][a-z0-9]+([A-Z][a-z0-9]+)+")
CONDITIONS = (names.CONFIGURED_CONDITION, names.MIG_CONFIGURED_CONDITION)
CLOSED = (memory.Reason, outcome.Going, prepare.GivenUp, waiting.Reason)
STAND_INS = ("simulation", "rehearsal")
WARNINGS = ("warning", "error", "exception")
REFUSALS = ("InvalidRequestError", "WithheldError", "NotEnoughGpusError")


def event_reasons() -> set[str]:
    """The constants of the contract that are one capitalised word."""
    values = {value for value in vars(names).values() if isinstance(value, str)}
    return {value for value in values if WORD.fullmatch(value)} - set(CONDITIONS)


def reasons() -> set[str]:
    """All words that Events, conditions and `why` show."""
    return event_reasons() | {str(each) for kind in CLOSED for each in kind}


@functools.cache
def calls() -> tuple[ast.Call, ...]:
    """Every call in what runs in a cluster."""
    return tuple(
        node
        for root in ("services", "shared")
        for path in sorted((ROOT / root).rglob("*.py"))
        if not set(STAND_INS) & set(path.parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    )


def said(node: ast.expr) -> str:
    """A string as the page has it, with `…` for what is put in; empty where it is no literal."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.sub(r"%(\.\d)?[sdfrg]", "…", node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(
            said(part) if isinstance(part, ast.Constant) else "…" for part in node.values
        )
    return ""


def logged() -> set[str]:
    """Sentences of warnings and errors; what only passes one on has no words of its own."""
    found = {
        said(call.args[1] if call.func.attr == "log" else call.args[0])
        for call in calls()
        if isinstance(call.func, ast.Attribute)
        and ast.unparse(call.func.value) == "log"
        and call.func.attr in (*WARNINGS, "log")
    }
    return {sentence for sentence in found if re.search("[a-z]{2}", sentence)}


def refused() -> set[str]:
    """What the allocator refuses with, up to what to do about it."""
    return {
        said(call.args[0]).partition(";")[0]
        for call in calls()
        if isinstance(call.func, ast.Name) and call.func.id in REFUSALS
    }


def below(heading: str) -> str:
    """What stands below a heading of the second rank."""
    _, _, rest = PAGE.partition(f"\n## {heading}\n")
    return rest.partition("\n## ")[0]


def rows(heading: str) -> set[str]:
    """The first cells of its tables."""
    return set(re.findall(r"^\| `([^`]+)` \|", below(heading), flags=re.MULTILINE))


def headings(heading: str) -> set[str]:
    """The words that have a heading of their own."""
    return set(re.findall(r"^#### `(\w+)`$", below(heading), flags=re.MULTILINE))


def difference(page: set[str], code: set[str]) -> str:
    """What to do about the page, empty where it is complete."""
    missing, gone = sorted(code - page), sorted(page - code)
    lines = [f"write about: {each}" for each in missing] + [f"gone: {each}" for each in gone]
    return "\n".join(lines)


def test_every_reason_has_its_heading_and_no_other_word_has_one() -> None:
    """People look for the word that they have seen."""
    assert not difference(headings("Reasons"), reasons())


def test_every_alert_has_its_heading() -> None:
    """Their links lead there."""
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    alerts = {rule["alert"] for group in groups for rule in group["rules"]}
    assert not difference(headings("Alerts"), alerts)


def test_every_refusal_is_explained() -> None:
    """The sentences that end in a pod's message."""
    assert not difference(rows("Refused requests"), refused())


def test_every_warning_is_explained() -> None:
    """One row for each line that somebody may have to act on."""
    assert not difference(rows("Log lines"), logged())


def test_no_reason_is_written_but_in_a_closed_list() -> None:
    """A literal elsewhere would escape this page."""
    found = {
        keyword.value.value
        for call in calls()
        for keyword in call.keywords
        if keyword.arg == "reason"
        and isinstance(keyword.value, ast.Constant)
        and isinstance(keyword.value.value, str)
        and WORD.fullmatch(keyword.value.value)
    }
    assert not found


@pytest.mark.parametrize("name", ["ConfigRefused", "InUse", "DrainTimeout", "AllHeld"])
def test_the_lists_hold_what_is_known_to_be_said(name: str) -> None:
    """The collecting itself is under test."""
    assert name in reasons()
    assert len(refused()) > 3
    assert len(logged()) > 40
