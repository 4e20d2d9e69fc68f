"""ConfigMap manifests: their texts, and the places of mistakes in the file."""

from __future__ import annotations

import json

import pytest

from shared.domain.errors import Place, RefusedError
from shared.sharing import load, manifest

MAP = "{apiVersion: v1, kind: ConfigMap}"
FILE = """\
apiVersion: v1
kind: Namespace
metadata: {name: gpu}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: sharing}
data:
  literal: |-

      # indented by more than two
      sharing:
        timeslicing: {}
  quoted: "version: v1\\nsharing: {timeslicing: {}}\\n"
  folded: >
    version: v2
"""


def place(file: str, key: str) -> tuple[int, int]:
    """Where the file has the first mistake of a key's text."""
    texts = manifest.texts(file)
    assert texts is not None
    with pytest.raises(RefusedError) as caught:
        load.load(texts[key].text)
    problem = texts[key].placed(caught.value.problems[0])
    return problem.line, problem.column


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_mistake_in_a_block_is_told_by_the_lines_of_the_file(ending: str) -> None:
    """People search for the line that they see in their editor."""
    assert place(FILE.replace("\n", ending), "literal") == (13, 9)


@pytest.mark.parametrize("odd", ["\x85", "\u2028", "\u2029"])
def test_odd_line_ends_count_as_the_parser_counts_them(odd: str) -> None:
    """They come with texts from web pages; places stay inside the file."""
    file = f"metadata: {{name: 'a{odd}{odd}b'}}\napiVersion: v1\nkind: ConfigMap\n"
    file += "data:\n  any: |-\n    versions: v1"
    assert place(file, "any") == (8, 5)


@pytest.mark.parametrize(("key", "where"), [("quoted", (14, 11)), ("folded", (15, 11))])
def test_a_mistake_in_another_form_is_told_by_the_place_of_the_value(
    key: str, where: tuple[int, int]
) -> None:
    """Quoted and folded texts do not keep their lines."""
    assert place(FILE, key) == where


def test_the_manifest_of_another_f05_file_gives_the_inner_text() -> None:
    """F05: Namespace and ConfigMap in one file; the inner text is what counts."""
    texts = manifest.texts(FILE)
    assert texts is not None
    assert list(texts) == ["literal", "quoted", "folded"]


def test_json_manifests_are_read() -> None:
    """What `kubectl get -o json` prints."""
    data = {"any": "version: v1\n"}
    file = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "data": data}, indent=2)
    texts = manifest.texts(file)
    assert texts is not None
    assert texts["any"].text == "version: v1\n"


@pytest.mark.parametrize("kind", ["List", "ConfigMapList"])
def test_a_list_with_one_config_map_is_a_manifest_of_it(kind: str) -> None:
    """What `kubectl get configmaps -o yaml` prints; lines count in the file."""
    file = (
        f"apiVersion: v1\nkind: {kind}\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n"
        "  data:\n    any: |\n      version: v1\n"
    )
    texts = manifest.texts(file)
    assert texts is not None
    assert texts["any"].text == "version: v1\n"
    assert texts["any"].place == Place(8, 7)


@pytest.mark.parametrize("text", ["", "version: v1", "a: 1\n---\nb: 2", "- 1"])
def test_a_bare_text_is_no_manifest(text: str) -> None:
    """Such a file is read as the sharing text itself."""
    assert manifest.texts(text) is None


@pytest.mark.parametrize(
    ("file", "part"),
    [
        ("apiVersion: v1\nkind: Secret\n", "holds 0 ConfigMaps (Secret)"),
        (
            f"apiVersion: v1\nkind: List\nitems: [{MAP}, {MAP}]\n",
            "holds 2 ConfigMaps (ConfigMap, ConfigMap)",
        ),
        ("apiVersion: v1\nkind: List\nitems: []\n", "holds 0 ConfigMaps (List)"),
        (FILE + "---\napiVersion: v1\nkind: ConfigMap\n", "holds 2 ConfigMaps"),
        ("apiVersion: v1\nkind: ConfigMap\ndata: {any: {a: b}}", "the value of a ConfigMap's key"),
        ("apiVersion: v1\nkind: ConfigMap\ndata: {any: 4}", "data.any, line 3, column 13"),
        ("apiVersion: v1\nkind: ConfigMap\ndata: [any]", "data, line 3, column 7: the data of"),
        ("apiVersion: v1\n\tkind: ConfigMap\n", "a tab stands in"),
    ],
)
def test_a_manifest_without_one_config_map_of_texts_is_refused(file: str, part: str) -> None:
    """The file is named for what it is."""
    with pytest.raises(RefusedError) as caught:
        manifest.texts(file)
    assert part in str(caught.value)


def test_a_release_with_the_texts_in_its_values_says_where_they_are() -> None:
    """F17: plan takes one of them, not the release around them."""
    file = (
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nspec:\n  values:\n"
        "    config:\n      map:\n        default: |-\n          version: v1\n"
    )
    with pytest.raises(RefusedError) as caught:
        manifest.texts(f"apiVersion: v1\nkind: Namespace\n---\n{file}")
    (problem,) = caught.value.problems
    assert problem.message == "the manifest holds 0 ConfigMaps (Namespace, HelmRelease), one is due"
    assert problem.suggestion.endswith("here spec.values.config.map.default")


@pytest.mark.parametrize("data", ["", "data:\n", "data: ~\n", "data: {}\n"])
def test_a_config_map_without_data_has_no_texts(data: str) -> None:
    """F23: created with nothing in it; selection says that it has no keys."""
    assert manifest.texts(f"apiVersion: v1\nkind: ConfigMap\n{data}") == {}
