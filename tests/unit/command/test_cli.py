"""The console command finds sub-commands, and lists none that does not exist."""

from __future__ import annotations

import importlib.util
import pathlib
import signal
import subprocess
import sys

import pytest

from services import cli
from services.commands import catalogue
from shared import version


@pytest.mark.parametrize("command", catalogue.ALL, ids=lambda each: each.words)
def test_every_listed_command_exists(command: catalogue.Command) -> None:
    """A row of the catalogue names a module that is there."""
    assert importlib.util.find_spec(command.module) is not None


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` lists all commands and ends with 0."""
    assert cli.main(["--help"]) == 0
    page = capsys.readouterr().out
    assert [each.words for each in catalogue.ALL if each.words not in page] == []


def test_version_is_the_distribution_s(capsys: pytest.CaptureFixture[str]) -> None:
    """`--version` prints the one version there is."""
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"slicewire {version.__version__}\n"


@pytest.mark.parametrize(
    ("typed", "proposed"),
    [
        (["demmo"], "slicewire demo"),
        (["allocater"], "slicewire allocator"),
        (["reconfigurer"], "slicewire reconfigurer agent"),
        (["reconfigurer", "controler"], "slicewire reconfigurer controller"),
    ],
    ids=lambda words: "-".join(words) if isinstance(words, list) else "",
)
def test_a_wrong_word_ends_with_2_and_the_nearest_command(
    typed: list[str], proposed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command that does not exist is refused with what was probably meant."""
    assert cli.main(typed) == 2
    assert proposed in capsys.readouterr().err


def test_options_go_after_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong with `slicewire -o json status` is no unknown command."""
    assert cli.main(["-o", "json", "status"]) == 2
    assert "-o stands before a command: options go after it" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["help", "bus", "keys"], ["help", "who"]], ids=" ".join)
def test_help_of_a_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """As with `--help` behind it."""
    with pytest.raises(SystemExit, match="0"):
        cli.main(words)
    assert f"usage: slicewire {' '.join(words[1:])}" in capsys.readouterr().out


def test_no_word_at_all_shows_the_usage_as_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """`slicewire` alone prints its page to standard error and ends with 2."""
    assert cli.main([]) == 2
    assert "usage: slicewire" in capsys.readouterr().err


def test_help_imports_no_client_library() -> None:
    """Listing the commands loads neither the bus nor gRPC nor the cluster's client."""
    code = (
        "import sys; from services import cli; cli.main(['--help']);"
        "heavy = {'nats', 'grpclib', 'kubernetes_asyncio', 'aiohttp', 'rich', 'pydantic'};"
        "sys.exit(len(heavy & sys.modules.keys()))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode
        == 0
    )


SLOW = """
import sys, time
from services import cli
from services.commands import catalogue
from shared.simulation.gpu import simulate
def start(*_):
    print("starting", flush=True)
    time.sleep(60)
catalogue.Command.run = start if sys.argv[1] != "simulate" else catalogue.Command.run
simulate.main = start
cli.main(sys.argv[1:])
"""


@pytest.mark.parametrize("words", [["allocator"], ["simulate", "--socket", "s", "--", "allocator"]])
def test_a_service_that_is_stopped_while_it_starts_ends_with_0(words: list[str]) -> None:
    """The kernel would keep the signal from the first process of a container."""
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "starting\n"
        process.terminate()
        _, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (0, "")


def test_a_part_that_is_not_installed_is_named_with_its_extra(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A node image without the demo's libraries says what to install."""
    command = catalogue.Command("demo", "no_such_library.demo", "", "demo")
    assert command.run([]) == 1
    said = capsys.readouterr().err
    assert "no_such_library" in said
    assert "slicewire[demo]" in said


LIBRARIES = {
    "node": {"google.protobuf", "grpclib", "pynvml"},
    "cluster": {"aiohttp", "kubernetes_asyncio", "nacl"},
}
WITHOUT = """
import importlib, sys
module, *missing = sys.argv[1:]
sys.modules |= dict.fromkeys(missing)
importlib.import_module(module)
"""


@pytest.mark.parametrize(
    "command", [each for each in catalogue.ALL if each.extra != "demo"], ids=lambda each: each.words
)
def test_a_command_needs_no_more_than_its_extra(command: catalogue.Command) -> None:
    """Else it would end in a traceback where only that is installed."""
    every = set().union(*LIBRARIES.values())
    missing = every - LIBRARIES.get(command.extra, set())
    words = [sys.executable, "-c", WITHOUT, command.module, *sorted(missing)]
    ended = subprocess.run(words, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


ENDLESS = """
import asyncio, sys
from services import cli
from services.commands import access, catalogue

async def work():
    while True:
        print("a line")
        await asyncio.sleep(0)

def main(argv):
    if argv:
        return access.run(work, "who", json=False)
    while True:
        print("a line")

sys.modules["a_command"] = sys.modules["__main__"]
catalogue.PEOPLE = catalogue.ALL = (catalogue.Command("endless", "a_command", ""),)
catalogue.find.__defaults__ = (catalogue.ALL,)
raise SystemExit(cli.main(["endless", *sys.argv[1:]]))
"""


@pytest.mark.parametrize("words", [(), ("bus",)], ids=["alone", "on the bus"])
@pytest.mark.parametrize("ends", ["reader", "interrupt"])
def test_who_has_read_enough_is_told_nothing_more(words: tuple[str, ...], ends: str) -> None:
    """As `slicewire status --watch | head` does, or a Ctrl-C."""
    with subprocess.Popen(
        [sys.executable, "-uc", ENDLESS, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"a line\n"
        if ends == "interrupt":
            process.send_signal(signal.SIGINT)
        process.stdout.close()
        assert process.wait(timeout=30) == 1
        assert process.stderr.read() == b""


@pytest.mark.parametrize("form", ["", " -ojson"])
def test_an_output_that_is_closed_ends_nothing(form: str) -> None:
    """The exit status is what was asked for."""
    words = f"plan --sharing /dev/null --gpus t4{form}"
    call = f"exec {sys.executable} -m services.cli {words} >&-"
    done = subprocess.run(["sh", "-c", call], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("bus", "users"),
        ("bus", "keys"),
        ("plan", "--sharing", "/dev/null", "--gpus", "t4", "-ojson"),
        ("status", "--bus-url", "nats://127.0.0.1:1", "-ojson"),
    ],
    ids=" ".join,
)
def test_an_answer_that_a_full_disk_does_not_take(words: tuple[str, ...]) -> None:
    """A sentence and status 1, whatever the command."""
    with pathlib.Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "services.cli", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "No space left on device" in done.stderr
