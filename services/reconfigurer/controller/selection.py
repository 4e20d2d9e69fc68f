"""Whether a pod may go to a node, by its nodeSelector and required node affinity. Pure.

Only labels count here: taints and resources are the scheduler's, and what it says of them is
handed on. What of an affinity cannot be read keeps no node away.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
Labels = Mapping[str, str]


def of(spec: Mapping[str, Any]) -> str:
    """What counts of a pod's spec, as one text: equal texts select equal nodes."""
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED) or {}
    terms = affinity.get("nodeSelectorTerms")
    return json.dumps([spec.get("nodeSelector") or {}, terms], sort_keys=True)


def selects(selection: str, name: str, labels: Labels) -> bool:
    """Whether a node is among those of a selection; of several terms one is enough."""
    wanted, terms = json.loads(selection)
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return terms is None or any(_meets(term, name, labels) for term in terms)


def _meets(term: Mapping[str, Any], name: str, labels: Labels) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False  # an empty term selects nothing
    return all(_holds(each, labels) for each in expressions) and all(
        _holds(each, {"metadata.name": name}) for each in fields
    )


def _holds(requirement: Mapping[str, Any], labels: Labels) -> bool:
    test = _OPERATORS.get(requirement.get("operator", ""))
    found = labels.get(requirement.get("key", ""))
    return test is None or test(found, requirement.get("values") or [])


def _is_over(found: str | None, values: list[str]) -> bool:
    return _number(found) > _number(values[0]) if found is not None and values else False


def _is_under(found: str | None, values: list[str]) -> bool:
    return _number(found) < _number(values[0]) if found is not None and values else False


def _number(text: str | None) -> int:
    return int(text) if text and text.lstrip("-").isdecimal() else 0


_OPERATORS: Mapping[str, Callable[[str | None, list[str]], bool]] = MappingProxyType(
    {
        "In": lambda found, values: found in values,
        "NotIn": lambda found, values: found not in values,
        "Exists": lambda found, _: found is not None,
        "DoesNotExist": lambda found, _: found is None,
        "Gt": _is_over,
        "Lt": _is_under,
    }
)
