"""Label and field selectors: text or LabelSelector to a test of an object's traits.

Lists, watches and disruption budgets select with these. Pure: only labels and the few selectable
fields are looked at, which the store keeps beside every object.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass

from shared.simulation.kube.apiserver import refusals
from shared.simulation.kube.apiserver.encoding import Json
from shared.simulation.kube.apiserver.kinds import Kind

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_KEY = rf"(?:{_NAME}/)?{_NAME}"
_COMMA = re.compile(r",(?![^()]*\))")
_SET = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL = re.compile(rf"({_KEY})\s*(==?|!=)\s*((?:{_NAME})?)")
_PRESENT = re.compile(rf"(!?)\s*({_KEY})")
_FIELD = re.compile(r"([^=!]+)(==?|!=)(.*)")


@dataclass(frozen=True, slots=True)
class Traits:
    """What selectors see of an object."""

    labels: Mapping[str, str]
    fields: Mapping[str, str]


class Operator(enum.Enum):
    """How a label requirement compares, named as in LabelSelector."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True)
class Requirement:
    """One condition on a label."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Say whether the labels satisfy it; an absent label satisfies the negative ones."""
        if self.operator is Operator.IN:
            return labels.get(self.key) in self.values
        if self.operator is Operator.NOT_IN:
            return labels.get(self.key) not in self.values
        return (self.key in labels) is (self.operator is Operator.EXISTS)


@dataclass(frozen=True)
class FieldTerm:
    """One condition on a selectable field."""

    field: str
    value: str
    equal: bool

    def holds(self, fields: Mapping[str, str]) -> bool:
        """Say whether the fields satisfy it."""
        return (fields[self.field] == self.value) is self.equal


@dataclass(frozen=True)
class Selector:
    """What a list or watch asks for: a namespace ("" is all) and conditions that hold together."""

    namespace: str = ""
    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldTerm, ...] = ()

    def matches(self, traits: Traits) -> bool:
        """Say whether an object of these traits is asked for."""
        if self.namespace and traits.fields["metadata.namespace"] != self.namespace:
            return False
        return all(term.holds(traits.fields) for term in self.fields) and all(
            requirement.holds(traits.labels) for requirement in self.labels
        )


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Read a labelSelector of a query (`a=b,c in (d,e),!f`); 400 where it is none."""
    parts = (part.strip() for part in _COMMA.split(text))
    return tuple(_requirement(part) for part in parts if part)


def _requirement(part: str) -> Requirement:
    if found := _SET.fullmatch(part):
        values = frozenset(value.strip() for value in found[3].split(","))
        return Requirement(found[1], Operator.IN if found[2] == "in" else Operator.NOT_IN, values)
    if found := _EQUAL.fullmatch(part):
        operator = Operator.NOT_IN if found[2] == "!=" else Operator.IN
        return Requirement(found[1], operator, frozenset({found[3]}))
    if found := _PRESENT.fullmatch(part):
        return Requirement(found[2], Operator.DOES_NOT_EXIST if found[1] else Operator.EXISTS)
    raise refusals.bad_request(f"unable to parse requirement: {part!r}")


def parse_fields(kind: Kind, text: str) -> tuple[FieldTerm, ...]:
    """Read a fieldSelector of a query; 400 where it is none or the kind has no such field."""
    return tuple(_field_term(kind, part) for part in text.split(",") if part)


def _field_term(kind: Kind, part: str) -> FieldTerm:
    found = _FIELD.fullmatch(part)
    if found is None:
        raise refusals.bad_request(f"invalid field selector {part!r}")
    if found[1] not in kind.field_paths:
        raise refusals.bad_request(f"field label not supported: {found[1]}")
    return FieldTerm(kind.stored_field(found[1]), found[3], equal=found[2] != "!=")


def from_label_selector(selector: Json) -> tuple[Requirement, ...]:
    """Turn a `metav1.LabelSelector` into requirements; the empty one has none and selects all."""
    pairs = (selector.get("matchLabels") or {}).items()
    expressions = selector.get("matchExpressions") or ()
    return (
        *(Requirement(key, Operator.IN, frozenset({value})) for key, value in pairs),
        *(
            Requirement(
                each["key"], Operator(each["operator"]), frozenset(each.get("values") or ())
            )
            for each in expressions
        ),
    )
