"""The nearest name to one that was not found, for every sentence that says "did you mean"."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable

_LONGEST = 60  # what a person still reads in a sentence
_NEAR = 0.6  # how alike two names are of which one was meant
_MOST_MEANT = 5
_MOST_LISTED = 10  # of names that may be very many


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that `name` most likely stands for, "" if none is near.

    A name that differs in upper and lower case, in dashes or in spaces is always the nearest. What
    stands before a slash makes no two alike: `default/train` is not near to `default/serve`.
    """
    names = sorted(set(known))
    folded = {_fold(candidate): candidate for candidate in reversed(names)}
    front, slash, leaf = _fold(name[:_LONGEST]).rpartition("/")
    pairs = [(each, each.rpartition("/")[2] if slash else each) for each in folded]
    close = set(difflib.get_close_matches(leaf, {leaf for _, leaf in pairs}, n=3, cutoff=_NEAR))
    near = [
        (_alike(other, leaf), _alike(whole.rpartition("/")[0], front), whole)
        for whole, other in pairs
        if other in close
    ]
    return folded[max(near)[2]] if near else ""


def same_but_spelling(name: str, known: Iterable[str]) -> str:
    """Return the known name that differs from `name` only in case, dashes or spaces, or ""."""
    return next((candidate for candidate in known if _fold(candidate) == _fold(name)), "")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the suggestion `did you mean "…"?`, "" if no known name is near.

    Who writes `a100` means one of the names that go on after it, not `a10`; so with a node whose
    domain is left out. Where very many go on so, nobody knows.
    """
    names = sorted(set(known))
    starts = (f"{name.lower()}-", f"{name.lower()}.")
    begun = [each for each in names if name and each.lower().startswith(starts)]
    meant = begun if 0 < len(begun) <= _MOST_MEANT else (nearest(name, names),)
    found = [f'"{each}"' for each in meant if each]
    return f"did you mean {' or '.join(found)}?" if found else ""


def among(name: str, known: Iterable[str]) -> str:
    """Return the rest of a sentence that says that a name is not known: what is, if not all."""
    names = sorted(set(known))
    if hint := did_you_mean(name, names):
        return hint
    more = len(names) - _MOST_LISTED
    rest = f" and {more} more" if more > 0 else ""
    return f"known: {listed(names[:_MOST_LISTED])}{rest}"


def listed(names: Iterable[str]) -> str:
    """Return names as people write a list; "nothing" for none."""
    return ", ".join(names) or "nothing"


def shorten(text: str) -> str:
    """Return `text` on one line, cut to what a sentence can quote.

    What nobody sees is spelled out: a text from a web page may hold no-break spaces.
    """
    head = text[: _LONGEST + 1]
    if head.isprintable():
        line = head
    else:
        line = "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in head)
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def _alike(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


def _fold(name: str) -> str:
    return re.sub(r"[^\w.+:/]|_", "", name.lower())
