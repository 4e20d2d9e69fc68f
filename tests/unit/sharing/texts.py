"""Short ways to write sharing texts, and to read them the way the tests ask."""

from __future__ import annotations

import pytest

from shared.domain.errors import Problem, RefusedError
from shared.sharing import load


def sliced(*entries: str, options: str = "") -> str:
    """A time-slicing text with one flow mapping an entry, as people paste them."""
    lines = [f"    - {{{entry}}}" for entry in entries]
    head = ["version: v1", "sharing:", "  timeSlicing:"]
    middle = [f"    {options}"] if options else []
    return "\n".join([*head, *middle, "    resources:", *lines, ""])


def gpu(rest: str) -> str:
    """A time-slicing text with one entry for nvidia.com/gpu."""
    return sliced(f"name: nvidia.com/gpu, {rest}")


def refused(text: str) -> tuple[Problem, ...]:
    """The problems that a text is refused with."""
    with pytest.raises(RefusedError) as caught:
        load.load(text)
    return caught.value.problems
