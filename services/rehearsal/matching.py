"""Whether what was observed is what a story expects. Pure; used for every key of a condition.

Numbers and texts are exact; a text that starts with `~` is a regular expression; null means
absent; of a map only the named keys count; a list is compared as a set with repetitions; a
number expected of a list is its length.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Several:
    """An observed history (Events): one that fits is enough."""

    items: tuple[Any, ...]


class Whole(dict[str, Any]):
    """An expected map of which all keys count: what it does not name must not be there."""


def fits(expected: Any, observed: Any) -> bool:
    """Tell whether `observed` is as `expected`."""
    if isinstance(observed, Several):
        return any(fits(expected, item) for item in observed.items)
    if isinstance(expected, Mapping):
        return isinstance(observed, Mapping) and _same_map(expected, observed)
    if isinstance(expected, Sequence) and not isinstance(expected, str):
        return _is_list(observed) and _same_items(expected, observed)
    if _is_number(expected) and _is_list(observed):
        return bool(len(observed) == expected)
    if isinstance(expected, str) and expected.startswith("~"):
        return observed is not None and re.search(expected[1:], str(observed)) is not None
    return type(expected) is type(observed) and bool(expected == observed)


def project(expected: Any, observed: Any) -> Any:
    """Cut what was observed down to what the expectation asks about, for people to compare."""
    if isinstance(observed, Several):
        fitting = [item for item in observed.items if fits(expected, item)]
        newest = fitting[-1:] or observed.items[-3:]
        shown = [project(expected, item) for item in newest]
        return shown[0] if fitting else shown
    if isinstance(expected, Whole):
        return observed
    if isinstance(expected, Mapping) and isinstance(observed, Mapping):
        return {key: project(value, observed.get(key)) for key, value in expected.items()}
    if _is_list(observed):
        return len(observed) if _is_number(expected) else list(observed)
    return observed


def _same_map(expected: Mapping[Any, Any], observed: Mapping[Any, Any]) -> bool:
    if isinstance(expected, Whole) and observed.keys() - expected.keys():
        return False
    return all(fits(value, observed.get(key)) for key, value in expected.items())


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _same_items(expected: Sequence[Any], observed: Sequence[Any]) -> bool:
    if len(expected) != len(observed):
        return False
    left = list(observed)
    patterns_last = sorted(expected, key=lambda item: isinstance(item, str) and item[:1] == "~")
    for item in patterns_last:
        found = next((index for index, each in enumerate(left) if fits(item, each)), None)
        if found is None:
            return False
        del left[found]
    return True
