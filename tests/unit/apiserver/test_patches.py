"""Patches turn an old object into the wanted one, and nothing else."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.simulation.kube.apiserver import jsonpatch, patches, strategic
from shared.simulation.kube.apiserver.refusals import Refused

KEYS = st.sampled_from(["a", "b", "c", "labels"])
SCALARS = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["x", "y"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)
CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from("ABCD"), "status": st.sampled_from(["True", "False"])},
        optional={"reason": st.sampled_from(["r1", "r2"])},
    ),
    unique_by=lambda condition: condition["type"],
    max_size=4,
)


@given(old=OBJECTS, patch=OBJECTS)
def test_merge_patch_twice_is_once(old: Any, patch: Any) -> None:
    """Applying a merge patch again changes nothing more, and the old object is never touched."""
    before = copy.deepcopy(old)
    once = patches.merge(old, patch)
    assert patches.merge(once, patch) == once
    assert old == before


@given(old=OBJECTS)
def test_empty_merge_patch_changes_nothing(old: Any) -> None:
    """An empty merge patch gives the object back."""
    assert patches.merge(old, {}) == old


@given(old=CONDITIONS, patch=CONDITIONS)
def test_strategic_patch_merges_conditions_by_type(old: Any, patch: Any) -> None:
    """Conditions that are named take the given values, others stay, in their order."""
    before = copy.deepcopy(old)
    merged = strategic.merge({"conditions": old}, {"conditions": patch})["conditions"]
    former, given_ones = _by_type(old), _by_type(patch)
    assert _by_type(merged) == {
        kind: {**former.get(kind, {}), **given_ones.get(kind, {})}
        for kind in {**former, **given_ones}
    }
    assert [each["type"] for each in merged][: len(old)] == [each["type"] for each in old]
    assert strategic.merge({"conditions": merged}, {"conditions": patch})["conditions"] == merged
    assert old == before


def _by_type(conditions: list[dict[str, str]]) -> dict[str, dict[str, str]]:
    return {each["type"]: each for each in conditions}


@pytest.mark.parametrize(
    ("old", "patch", "new"),
    [
        pytest.param({"a": 1, "b": 2}, {"$patch": "replace", "c": 3}, {"c": 3}, id="replace-map"),
        pytest.param({"a": {"b": 1}}, {"a": {"$patch": "delete"}}, {"a": {}}, id="empty-map"),
        pytest.param(
            {"a": 1, "b": 2},
            {"$retainKeys": ["a", "c"], "c": 3},
            {"a": 1, "c": 3},
            id="retain-keys",
        ),
        pytest.param(
            {"containers": [{"name": "x", "image": "1"}, {"name": "y"}]},
            {"containers": [{"name": "y", "$patch": "delete"}, {"name": "x", "image": "2"}]},
            {"containers": [{"name": "x", "image": "2"}]},
            id="delete-item",
        ),
        pytest.param(
            {"env": [{"name": "x"}]},
            {"env": [{"$patch": "replace"}, {"name": "y"}]},
            {"env": [{"name": "y"}]},
            id="replace-list",
        ),
        pytest.param(
            {"env": [{"name": "x"}, {"name": "y"}]},
            {"$setElementOrder/env": [{"name": "z"}, {"name": "y"}], "env": [{"name": "z"}]},
            {"env": [{"name": "z"}, {"name": "y"}, {"name": "x"}]},
            id="order",
        ),
        pytest.param(
            {"finalizers": ["a", "b"]},
            {"finalizers": ["b", "c"], "$deleteFromPrimitiveList/podCIDRs": ["q"]},
            {"finalizers": ["a", "b", "c"], "podCIDRs": []},
            id="sets",
        ),
        pytest.param(
            {"taints": [{"key": "a"}]},
            {"taints": [{"key": "b"}]},
            {"taints": [{"key": "b"}]},
            id="atomic-list",
        ),
        pytest.param(
            {"ports": [{"containerPort": 1, "name": "x"}]},
            {"ports": [{"containerPort": 1, "name": "y"}]},
            {"ports": [{"containerPort": 1, "name": "y"}]},
            id="ports-of-containers",
        ),
    ],
)
def test_strategic_directives(old: Any, patch: Any, new: Any) -> None:
    """Directives and merge keys do what kubectl relies on."""
    assert strategic.merge(old, patch) == new


def test_strategic_patch_refuses_an_item_without_its_key() -> None:
    """A condition without a type cannot be merged: 400."""
    with pytest.raises(Refused) as caught:
        strategic.merge({}, {"conditions": [{"status": "True"}]})
    assert caught.value.code == 400


DOCUMENT = {"a": {"b/c": 1, "d~e": 2}, "list": [1, 2, 3]}


@pytest.mark.parametrize(
    ("operation", "path", "seen"),
    [
        pytest.param({"op": "add", "value": 9}, "/list/1", [1, 9, 2, 3], id="insert"),
        pytest.param({"op": "add", "value": 9}, "/list/-", [1, 2, 3, 9], id="append"),
        pytest.param({"op": "replace", "value": 9}, "/list/2", [1, 2, 9], id="replace"),
        pytest.param({"op": "remove"}, "/list/0", [2, 3], id="remove"),
        pytest.param({"op": "copy", "from": "/a/b~1c"}, "/list/0", [1, 1, 2, 3], id="copy"),
        pytest.param({"op": "move", "from": "/a/d~0e"}, "/list/0", [2, 1, 2, 3], id="move"),
        pytest.param({"op": "test", "value": [1, 2, 3]}, "/list", [1, 2, 3], id="test"),
    ],
)
def test_json_patch_operations(operation: Any, path: str, seen: Any) -> None:
    """Each operation does what RFC 6902 says, and the document given stays as it was."""
    before = copy.deepcopy(DOCUMENT)
    assert jsonpatch.apply(DOCUMENT, [{**operation, "path": path}])["list"] == seen
    assert before == DOCUMENT


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/none"},
        {"op": "replace", "path": "/none", "value": 1},
        {"op": "add", "path": "/list/5", "value": 1},
        {"op": "add", "path": "/list/01", "value": 1},
        {"op": "add", "path": "/list/0/deeper", "value": 1},
        {"op": "remove", "path": "/list/-1"},
        {"op": "test", "path": "/list/0", "value": 2},
        {"op": "add", "path": "no-slash", "value": 1},
        {"op": "unknown", "path": "/a"},
        {"path": "/a"},
        "not an operation",
    ],
    ids=str,
)
def test_json_patch_refuses_as_a_whole(operation: Any) -> None:
    """Whatever cannot be done is 422 without details, and what came before it is undone."""
    first = {"op": "add", "path": "/list/-", "value": 9}
    before = copy.deepcopy(DOCUMENT)
    with pytest.raises(Refused) as caught:
        jsonpatch.apply(DOCUMENT, [first, operation])
    assert (caught.value.code, caught.value.details) == (422, {})
    assert before == DOCUMENT


@pytest.mark.parametrize(("media_type", "body"), [(patches.JSON_PATCH, {}), (patches.MERGE, [])])
def test_patches_of_the_wrong_shape(media_type: str, body: Any) -> None:
    """A JSON patch is an array and the others are objects; else 400."""
    with pytest.raises(Refused) as caught:
        patches.read(media_type, body)
    assert caught.value.code == 400
