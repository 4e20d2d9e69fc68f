"""Which nodes a pod may go to, by its nodeSelector and required node affinity. Pure.

Only labels count here: taints and resources are the scheduler's, and what it says of them is
handed on. What of an affinity cannot be read keeps no node away.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NAME = "metadata.name"  # the one field of a node that a term may ask for
Labels = Mapping[str, str]
Labelled = tuple[str, Labels]  # a node's name, and its labels


def of(spec: Mapping[str, Any]) -> str:
    """What counts of a pod's spec, as one text: equal texts select equal nodes."""
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED) or {}
    terms = affinity.get("nodeSelectorTerms")
    return json.dumps([spec.get("nodeSelector") or {}, terms], sort_keys=True)


def chosen(selection: str, nodes: Sequence[Labelled]) -> tuple[str, ...]:
    """Name the nodes that a selection lets its pods go to; of several terms one is enough.

    Fleets are large and selections many: each requirement is asked of the nodes that are left.
    """
    wanted, terms = json.loads(selection)
    for key, value in wanted.items():
        nodes = [(name, labels) for name, labels in nodes if labels.get(key) == value]
    if terms is not None:
        fit = {name for term in terms for name in _meeting(term, nodes)}
        nodes = [(name, labels) for name, labels in nodes if name in fit]
    return tuple(name for name, _ in nodes)


def _meeting(term: Mapping[str, Any], nodes: Sequence[Labelled]) -> list[str]:
    fields, expressions = term.get("matchFields") or (), term.get("matchExpressions") or ()
    if not fields and not expressions:
        return []  # an empty term selects nothing
    for key, holds in map(_test, fields):
        nodes = [node for node in nodes if holds(node[0] if key == NAME else None)]
    for key, holds in map(_test, expressions):
        nodes = [node for node in nodes if holds(node[1].get(key))]
    return [name for name, _ in nodes]


def _test(requirement: Mapping[str, Any]) -> tuple[str, Callable[[str | None], bool]]:
    """What is asked for, and whether it is as it has to be; None is a label that is not there."""
    holds = _OPERATORS.get(requirement.get("operator", ""), _is_unread)
    values = requirement.get("values") or []
    return requirement.get("key", ""), functools.partial(holds, values)


def _is_unread(_values: list[str], _found: str | None) -> bool:
    return True


def _is_over(values: list[str], found: str | None) -> bool:
    return _number(found) > _number(values[0]) if found is not None and values else False


def _is_under(values: list[str], found: str | None) -> bool:
    return _number(found) < _number(values[0]) if found is not None and values else False


def _number(text: str | None) -> int:
    return int(text) if text and text.lstrip("-").isdecimal() else 0


_OPERATORS: Mapping[str, Callable[[list[str], str | None], bool]] = MappingProxyType(
    {
        "In": lambda values, found: found in values,
        "NotIn": lambda values, found: found not in values,
        "Exists": lambda _, found: found is not None,
        "DoesNotExist": lambda _, found: found is None,
        "Gt": _is_over,
        "Lt": _is_under,
    }
)
