"""The nearest name to one that was not found, for every sentence that says "did you mean"."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable

_LONGEST = 60  # what a person still reads in a sentence


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that `name` most likely stands for, "" if none is near.

    A name that differs in upper and lower case, in dashes or in spaces is always the nearest.
    """
    names = sorted(set(known))
    folded = {_fold(candidate): candidate for candidate in reversed(names)}
    close = difflib.get_close_matches(_fold(name[:_LONGEST]), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else ""


def same_but_spelling(name: str, known: Iterable[str]) -> str:
    """Return the known name that differs from `name` only in case, dashes or spaces, or ""."""
    return next((candidate for candidate in known if _fold(candidate) == _fold(name)), "")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the suggestion `did you mean "…"?`, "" if no known name is near.

    Who writes `a100` means one of the names that go on after it, not `a10`.
    """
    names = sorted(set(known))
    begun = [each for each in names if name and each.startswith(f"{name.lower()}-")]
    found = [f'"{each}"' for each in begun or (nearest(name, names),) if each]
    return f"did you mean {' or '.join(found)}?" if found else ""


def listed(names: Iterable[str]) -> str:
    """Return names as people write a list; "nothing" for none."""
    return ", ".join(names) or "nothing"


def shorten(text: str) -> str:
    """Return `text` on one line, cut to what a sentence can quote.

    What nobody sees is spelled out: a text from a web page may hold no-break spaces.
    """
    head = text[: _LONGEST + 1]
    line = "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in head)
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def _fold(name: str) -> str:
    return re.sub(r"[^\w.+:/]|_", "", name.lower())
