"""What an expression asks for: metrics, and of each the labels that it selects or groups by."""

from __future__ import annotations

import re

from shared.contract.table import Role
from shared.telemetry import catalogue

METRIC = re.compile(r"\bslicewire_[a-z_]+\b(?:\{([^}]*)\})?")
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
GROUPED = re.compile(r"\b(?:by|on|group_left|without)\s*\(([^)]*)\)")
HISTOGRAM_SUFFIXES = ("_bucket", "_count", "_sum")
EXPOSED = {each.exposed: each for each in catalogue.INSTRUMENTS}


def instrument(series: str) -> catalogue.Instrument:
    """The instrument that has this series; KeyError where there is none."""
    for suffix in HISTOGRAM_SUFFIXES:
        whole = series.removesuffix(suffix)
        if (
            whole != series
            and EXPOSED.get(whole, catalogue.LEADER).kind is catalogue.Kind.HISTOGRAM
        ):
            return EXPOSED[whole]
    return EXPOSED[series]


def labels(series: str) -> set[str]:
    """Labels that it may have."""
    found = instrument(series)
    place = {"node"} if Role.CONTROLLER not in found.services else set()
    anywhere = {"node", "service"} if found.services == catalogue.EVERYWHERE else set()
    bucket = {"le"} if found.kind is catalogue.Kind.HISTOGRAM else set()
    return {*found.labels, *place, *anywhere, *bucket}


def asked(expr: str) -> dict[str, set[str]]:
    """Each series of an expression with the labels that are asked of it.

    What is grouped by is asked of every series in the expression that could have it; one that
    none has is asked of the first, where it is then missed.
    """
    found: dict[str, set[str]] = {}
    for match in METRIC.finditer(expr):
        name = match[0].partition("{")[0]
        found.setdefault(name, set()).update(LABEL.findall(match[1] or ""))
    for names in GROUPED.findall(expr):
        for label in filter(None, (name.strip() for name in names.split(","))):
            having = [name for name in found if label in labels(name)]
            for name in having or list(found)[:1]:
                found[name].add(label)
    return found
