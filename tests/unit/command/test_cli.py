"""The console command finds sub-commands, and lists none that does not exist."""

from __future__ import annotations

import importlib.util
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


def test_a_part_that_is_not_installed_is_named_with_its_extra(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A node image without the demo's libraries says what to install."""
    command = catalogue.Command("demo", "no_such_library.demo", "", "demo")
    assert command.run([]) == 1
    said = capsys.readouterr().err
    assert "no_such_library" in said
    assert "slicewire[demo]" in said
