"""A page of the documentation → the commands that it tells people to type. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

BLOCK = re.compile(r"```sh\n(.*?)```", re.S)


@dataclass(frozen=True)
class Command:
    """One command line: its program, empty for flags that belong to a command before, and words."""

    program: str
    words: tuple[str, ...]


def commands(page: str, names: dict[str, str]) -> Iterator[Command]:
    """All commands in their order; `names` says what stands for each placeholder."""
    for block in BLOCK.findall(page):
        for line in block.replace("\\\n", " ").splitlines():
            words = [_named(word, names) for word in shlex.split(line)]
            if words and words[0].startswith("--"):
                yield Command("", tuple(words))
            elif words:
                yield Command(words[0], tuple(words[1:]))


def _named(word: str, names: dict[str, str]) -> str:
    """Put names in the place of whole words, or of those that end at a sign."""
    for placeholder, name in names.items():
        word = re.sub(rf"(?<![\w-]){re.escape(placeholder)}(?![a-z])", name, word)
    return word
