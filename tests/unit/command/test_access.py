"""Programs get one JSON object whatever happens: also where a command has no answer."""

from __future__ import annotations

import io
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

from services.commands import plan, rehearse, status, trace, who, why
from services.views import console as view

NOBODY = ("--bus-url", "nats://127.0.0.1:1")
PROBLEM = {"path", "line", "column", "message", "suggestion"}
Main = Callable[[Sequence[str]], int]


@pytest.mark.parametrize(
    ("main", "words"),
    [
        pytest.param(plan.main, ("--gpus", "t4"), id="plan: an option is missing"),
        pytest.param(plan.main, ("--sharing", "/no/such", "--gpus", "t4"), id="plan: no file"),
        pytest.param(rehearse.main, ("/no/such",), id="rehearse: no file"),
        pytest.param(status.main, ("--nope",), id="status: unknown option"),
        pytest.param(who.main, (), id="who: of whom?"),
        pytest.param(who.main, ("--pod", "a"), id="who: no pod's name"),
        pytest.param(who.main, ("--pod", "/a"), id="who: no namespace"),
        pytest.param(who.main, ("--node", ""), id="who: no node's name"),
        pytest.param(why.main, ("a/b/c",), id="why: no pod's name"),
        pytest.param(why.main, ("a/",), id="why: half a pod's name"),
        pytest.param(status.main, ("",), id="status: no node's name"),
        pytest.param(trace.main, ("--last", "a"), id="trace: which?"),
        pytest.param(trace.main, ("",), id="trace: of what?"),
        pytest.param(status.main, ("--bus-url", ""), id="status: no address"),
        pytest.param(status.main, ("--bus-url", "http://a:1"), id="status: another protocol"),
        pytest.param(who.main, ("--node", "a", "--bus-url", "a,"), id="who: half a list"),
    ],
)
@pytest.mark.parametrize("form", [("-o", "json"), ("-ojson",)], ids=" ".join)
def test_a_wrong_call(
    main: Main, words: tuple[str, ...], form: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, the sentence on both."""
    with pytest.raises(SystemExit) as ended:
        main([*words, *form])
    assert ended.value.code == 2
    said = capsys.readouterr()
    refused = json.loads(said.out)
    (error,) = refused["errors"]
    assert (refused["ok"], error.keys()) == (False, PROBLEM)
    assert error["message"] in said.err


def test_letters_that_the_terminal_has_not_are_escaped(tmp_path: pathlib.Path) -> None:
    """A user's ü ends neither a table nor an object where the locale knows ASCII only."""
    text = tmp_path / "text.yaml"
    text.write_text('version: v1\nsharing: {timeSlicing: {resources: [{name: "gpü"}]}}\n', "utf-8")
    words = ("plan", "--sharing", str(text), "--gpus", "t4=1", "-o", "json")
    answer = _ascii(*words)
    assert any("gpü" in each["message"] for each in json.loads(answer.stdout)["errors"])
    assert (answer.returncode, "Traceback" in answer.stderr) == (1, False)


def test_what_people_read_is_escaped_as_well() -> None:
    """Lines of a table go through one console."""
    said = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    view.open_console(said).print("config gpü")
    said.seek(0)
    assert said.read() == "config gp\\xfc\n"


@pytest.mark.parametrize(("columns", "longest"), [("0", 120), ("60", 60), ("", 120)])
def test_columns_bound_lines_and_a_width_of_nothing_bounds_none(
    columns: str, longest: int, tmp_path: pathlib.Path
) -> None:
    """COLUMNS=0, as some shells without a terminal have it, is no reason to be silent."""
    text = tmp_path / "text.yaml"
    text.write_text("slicewire: {health: {recoverAfter: 5m}}", "utf-8")
    words = ("plan", "--sharing", str(text), "--gpus", "t4")
    done = subprocess.run(
        (sys.executable, "-m", "services.cli", *words),
        env={**os.environ, "COLUMNS": columns},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert "GPU 0  t4" in lines[0]
    assert (max(map(len, lines)) > 60) is (longest > 60)


def _ascii(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose output is ASCII."""
    return subprocess.run(
        (sys.executable, "-m", "services.cli", *words),
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_wrong_call_without_json_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output is for answers."""
    with pytest.raises(SystemExit):
        who.main([])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("main", "words"),
    [
        pytest.param(status.main, (), id="status"),
        pytest.param(who.main, ("--node", "a"), id="who"),
        pytest.param(trace.main, ("--last",), id="trace"),
    ],
)
def test_a_bus_that_does_not_answer(
    main: Main, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 1, and why."""
    assert main([*words, *NOBODY, "-o", "json"]) == 1
    (error,) = json.loads(capsys.readouterr().out)["errors"]
    assert "not on the bus at nats://127.0.0.1:1" in error["message"]


def test_a_key_for_a_bare_text_is_told_to_choose_nothing(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The text is planned all the same."""
    file = tmp_path / "sharing.yaml"
    file.write_text("version: v1", encoding="utf-8")
    words = ["--sharing", str(file), "--gpus", "t4", "--key", "any", "-o", "json"]
    assert plan.main(words) == 0
    warnings = [each["message"] for each in json.loads(capsys.readouterr().out)["warnings"]]
    assert "--key any chooses nothing: the file is a bare text, not a ConfigMap" in warnings
