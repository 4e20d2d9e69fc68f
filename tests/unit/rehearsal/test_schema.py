"""The JSON Schema of stories: as committed, it takes right stories and knows what readers know."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import jsonschema
import pytest
import yaml

from services.rehearsal import cast, language, schema, schema_steps, steps
from services.rehearsal.story import Node
from shared.domain.errors import RefusedError

ROOT = pathlib.Path(__file__).parents[3]
FILES = sorted(
    path
    for folder in ("deploy/examples", "tests/e2e/stories", "services/rehearsal/stories")
    for path in (ROOT / folder).glob("*.yaml")
)
SCHEMA: dict[str, Any] = json.loads(schema.FILE.read_text(encoding="utf-8"))
FRAME = "nodes: [{name: gpu-a, gpus: [t4]}]\nsteps:\n"


def valid(text: str) -> bool:
    """Whether an editor would underline nothing; keys are texts there, as in JSON."""
    plain = json.loads(json.dumps(yaml.safe_load(text)))
    return bool(jsonschema.Draft7Validator(SCHEMA).is_valid(plain))


def test_the_file_stands_as_the_vocabulary_says() -> None:
    """`make generated` says the same."""
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert schema.main(["--check"]) == 0
    assert schema.whole() == SCHEMA


@pytest.mark.parametrize("file", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_story_of_the_project_passes(file: pathlib.Path) -> None:
    """What is played is what an editor takes."""
    assert valid(file.read_text(encoding="utf-8"))


WRONG: dict[str, str] = {
    "unknown step": "- {expct: {node: gpu-a, lists: 1}}",
    "two steps in one": "- {wait: 1s, say: x}",
    "no step": "- {as: x}",
    "unknown condition": "- expect: {node: gpu-a, alocatable: {a: 1}}",
    "a pod's condition on a node": "- expect: {node: gpu-a, phase: Running}",
    "a duration without a unit": "- wait: 10",
    "a word for a count": "- expect: {node: gpu-a, lists: one}",
    "unknown slot state": "- expect: {node: gpu-a, slots: {r: {used: 1}}}",
    "unknown owner": "- pod: {name: a, requests: {}, owner: Deployment}",
    "unknown service": "- kill: {service: scheduler}",
    "a budget of half a pod": "- pdb: {name: b, selector: {}, minAvailable: half}",
    "a client without a pid": "- fault: {node: gpu-a, clients: [{gpu: 0, name: dcgm}]}",
    "a mode pending until whenever": "- fault: {node: gpu-a, modeStaysPending: whenever}",
    "within in never": "- never: {node: gpu-a, lists: 1, within: 1s}",
    "trace without a start": "- expect: {trace: {connected: true}}",
}


@pytest.mark.parametrize("steps_text", WRONG.values(), ids=WRONG.keys())
def test_what_the_reader_refuses_is_underlined(steps_text: str) -> None:
    """Mistakes of form show in the editor, and are refused when the story is played."""
    text = FRAME + steps_text + "\n"
    assert not valid(text)
    with pytest.raises(RefusedError):
        language.read(text, "s.yaml")


@pytest.mark.parametrize("kind", steps.Reader({}).kinds)
def test_each_step_has_the_keys_that_its_reader_takes(kind: str) -> None:
    """The reader's own refusal lists them."""
    _, form = schema_steps.STEPS[kind]
    if "properties" not in form:
        return  # a text, or conditions: these are made from the vocabulary
    with pytest.raises(RefusedError) as refused:
        language.read(f"{FRAME}- {kind}: {{zzz: 1}}\n", "s.yaml")
    listed = next(each.message for each in refused.value.problems if "zzz" in each.message)
    assert set(listed.partition("accepted here: ")[2].split(", ")) == set(form["properties"])


def test_no_step_and_no_key_is_left_out() -> None:
    """Steps, nodes, switches and GPUs as their readers have them."""
    assert set(schema_steps.STEPS) == set(steps.Reader({"a": Node(name="a")}).kinds)
    node = SCHEMA["definitions"]["node"]["properties"]
    assert set(node) == set(cast.NODE_KEYS)
    assert set(node["kubelet"]["properties"]) == {*cast.SWITCHES, cast.STALE}
    assert set(node["gpus"]["items"]["anyOf"][1]["properties"]) == set(cast.GPU_KEYS)
    assert set(SCHEMA["properties"]) == set(language.PARTS)
