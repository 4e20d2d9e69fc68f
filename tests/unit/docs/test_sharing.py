"""The page about sharing: its commands print what stands there, and no field is left out."""

from __future__ import annotations

import pathlib
import re
import shlex

import pytest

from services import cli
from shared.contract import names
from shared.domain.sharing import AllocationPolicy, MigStrategy, SourceKind
from shared.sharing import entries, homes

PAGE = (pathlib.Path(__file__).parents[3] / "docs" / "sharing.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^`([a-z0-9.]+)`:\n\n```yaml\n(.*?)^```", PAGE, re.M | re.S))
CALLS = re.findall(
    r"^\$ (.+)\n((?:(?!\$ ).*\n)*)",
    "".join(re.findall(r"^```console\n(.*?)^```", PAGE, re.M | re.S)),
    re.M,
)
WORDS = {
    *(key for keys in homes.KEYS.values() for key in keys),
    *AllocationPolicy,
    *MigStrategy,
    *SourceKind,
    names.CONFIG_LABEL,
    names.CONFIG_REFUSED,
    names.CONFIG_NOT_FOUND,
    names.CONFIG_NOT_SELECTED,
    names.CONFIGURED_CONDITION,
    f"{entries.MOST_IDS:,}",
}


@pytest.mark.parametrize(("command", "printed"), CALLS, ids=[command for command, _ in CALLS])
def test_commands_print_what_the_page_shows(
    command: str,
    printed: str,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With the files of the page, in an empty folder."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    program, *words = shlex.split(command)
    assert program == "slicewire"
    status = cli.main(words)
    said = capsys.readouterr()
    assert said.out + said.err == printed
    assert status == (1 if said.err else 0)


def test_the_page_has_files_and_commands() -> None:
    """A page whose blocks are no longer found would pass by saying nothing."""
    assert len(FILES) >= 6
    assert len(CALLS) >= 5


@pytest.mark.parametrize("word", sorted(WORDS))
def test_every_field_and_every_answer_stands_on_the_page(word: str) -> None:
    """Whoever adds one tells it there."""
    assert word in PAGE
