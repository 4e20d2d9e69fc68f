"""Selectors say which objects are asked for."""

from __future__ import annotations

import pytest

from shared.simulation.kube.apiserver import kinds, selectors
from shared.simulation.kube.apiserver.encoding import Json
from shared.simulation.kube.apiserver.refusals import Refused
from shared.simulation.kube.apiserver.selectors import FieldTerm, Selector, Traits

LABELS = {"app": "web", "x.test/tier": "a", "empty": ""}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app = web , x.test/tier=a", True),
        ("app=api", False),
        ("app!=api", True),
        ("absent!=api", True),
        ("app in (api,web)", True),
        ("app in (api, web),x.test/tier notin (b,c)", True),
        ("app notin (web)", False),
        ("absent notin (web)", True),
        ("app", True),
        ("absent", False),
        ("!absent", True),
        ("!app", False),
        ("empty=", True),
        ("app=", False),
    ],
)
def test_label_selector(text: str, found: bool) -> None:
    """Requirements hold together; an absent label satisfies the negative ones."""
    assert all(each.holds(LABELS) for each in selectors.parse_labels(text)) is found


@pytest.mark.parametrize("text", ["a===b", "a in b", "a b", "=a", "a,!", "a in (b"])
def test_unreadable_label_selector(text: str) -> None:
    """Anything else is 400."""
    with pytest.raises(Refused) as caught:
        selectors.parse_labels(text)
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "web", "absent": "x"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "absent", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "absent", "operator": "DoesNotExist"}]}, True),
    ],
)
def test_selector_of_a_budget(selector: Json, found: bool) -> None:
    """A LabelSelector's pairs and expressions hold together; the empty one selects all."""
    wanted = selectors.from_label_selector(selector)
    assert all(each.holds(LABELS) for each in wanted) is found


def test_field_selector() -> None:
    """Fields compare as text, and an object of another namespace is not selected."""
    fields = {"metadata.name": "p", "metadata.namespace": "ns", "spec.nodeName": ""}
    traits = Traits({}, fields)
    terms = selectors.parse_fields(kinds.POD, "spec.nodeName=,metadata.name!=q")
    assert terms[1] == FieldTerm("metadata.name", "q", equal=False)
    assert Selector("ns", fields=terms).matches(traits)
    assert Selector("", fields=terms).matches(traits)
    assert not Selector("other", fields=terms).matches(traits)


def test_fields_of_a_view_are_those_of_the_stored_kind() -> None:
    """`regarding` of events.k8s.io selects by `involvedObject`."""
    (term,) = selectors.parse_fields(kinds.EVENT_V1, "regarding.name=n")
    assert term.field == "involvedObject.name"


@pytest.mark.parametrize("text", ["status.foo=1", "metadata.name", "metadata.labels=x"])
def test_unknown_field(text: str) -> None:
    """A field that the kind does not offer is 400, never an empty list."""
    with pytest.raises(Refused) as caught:
        selectors.parse_fields(kinds.NODE, text)
    assert caught.value.code == 400
