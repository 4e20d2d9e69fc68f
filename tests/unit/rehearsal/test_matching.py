"""What fits an expectation, and what is shown of what was observed."""

from __future__ import annotations

from typing import Any

import pytest

from services.rehearsal import matching
from services.rehearsal.matching import Several, Whole

CASES: dict[str, tuple[Any, Any, bool]] = {
    "equal number": (8, 8, True),
    "other number": (8, 4, False),
    "equal text": ("Running", "Running", True),
    "part of a text is not the text": ("Run", "Running", False),
    "number is not its digits": (8, "8", False),
    "truth is not one": (True, 1, False),
    "pattern": ("~^GPU-[0-9a-f-]+$", "GPU-0a", True),
    "pattern that is absent": ("~.*", None, False),
    "pattern that does not fit": ("~^MIG-", "GPU-0a", False),
    "absent as wanted": (None, None, True),
    "present though unwanted": (None, "x", False),
    "named keys only": ({"a": 1}, {"a": 1, "b": 2}, True),
    "absent key as wanted": ({"b": None}, {"a": 1}, True),
    "whole map": (Whole({"a": 1}), {"a": 1}, True),
    "whole map with something else": (Whole({"a": 1}), {"a": 1, "b": 2}, False),
    "whole map of nothing": (Whole(), {"b": 2}, False),
    "map of nothing observed": ({"a": 1}, None, False),
    "list in another order": (["b", "a"], ["a", "b"], True),
    "list counts repetitions": (["a", "a"], ["a", "b"], False),
    "list too long": (["a"], ["a", "b"], False),
    "patterns take what texts leave": (["~.", "a"], ["a", "b"], True),
    "number is a list's length": (2, ["a", "b"], True),
    "one of several": ({"reason": "B"}, Several(({"reason": "A"}, {"reason": "B"})), True),
    "none of several": ({"reason": "C"}, Several(({"reason": "A"}, {"reason": "B"})), False),
}


@pytest.mark.parametrize(("expected", "observed", "wanted"), CASES.values(), ids=CASES.keys())
def test_fits(expected: Any, observed: Any, wanted: bool) -> None:
    """Each form of expectation takes what it means, and nothing else."""
    assert matching.fits(expected, observed) is wanted


def test_only_what_was_asked_about_is_shown() -> None:
    """Of a map, the named keys are shown with their observed values, absent ones as null."""
    observed = {"a": 1, "b": 2}
    assert matching.project({"a": 9, "c": None}, observed) == {"a": 1, "c": None}


def test_of_several_the_newest_fitting_one_is_shown() -> None:
    """Where an Event fits, it is shown; where none does, the last few are."""
    events = Several(tuple({"reason": reason, "n": n} for n, reason in enumerate("ABA")))
    assert matching.project({"reason": "A", "n": "~."}, events) == {"reason": "A", "n": 2}
    assert matching.project({"reason": "C"}, events) == [{"reason": each} for each in "ABA"]
