"""Programs get one JSON object whatever happens: also where a command has no answer."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

from services.commands import plan, rehearse, status, trace, who

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
        pytest.param(trace.main, ("--last", "a"), id="trace: which?"),
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


ENDLESS = """
import asyncio
from services.commands import access

async def work():
    while True:
        print("a line")
        await asyncio.sleep(0)

raise SystemExit(access.run(work, "status", json=False))
"""


def test_a_reader_that_has_gone_ends_a_command_without_a_word() -> None:
    """As `slicewire status --watch | head` does."""
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"a line\n"
        process.stdout.close()
        assert process.wait(timeout=30) == 1
        assert process.stderr.read() == b""
