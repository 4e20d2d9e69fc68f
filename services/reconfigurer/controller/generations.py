"""Numbers for changes: a term per leader, a counter per change, never lower than one in use.

`leaseTransitions` alone starts again at 0 when somebody deletes the Lease; the highest term that
any node's annotation shows keeps the order even then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shared.contract import names
from shared.contract.generation import NONE, Generation


def noted(annotations: Mapping[str, str], name: str = names.GENERATION_ANNOTATION) -> Generation:
    """Read a node's annotation; one that cannot be read counts as none."""
    try:
        return Generation.parse(annotations.get(name, str(NONE)))
    except ValueError:
        return NONE


def first(transitions: int, in_use: Iterable[Generation]) -> Generation:
    """The generation before a new leader's first: its term is above all that were ever used."""
    highest = max((each.term for each in in_use), default=0)
    return Generation(max(transitions, highest) + 1, 0)
