"""The language → a JSON Schema, by which editors complete and check stories as they are written.

`make schema` writes docs/rehearsal.schema.json, `make generated` checks that it stands as the
vocabulary says. What only a reader of the whole story can know (whether a node, pod or step is
there) is left to `language`.
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from services.rehearsal import cast, schema_steps, vocabulary
from services.rehearsal.conditions import NESTED
from services.rehearsal.schema_words import COUNT, MAP_OF_TEXTS, TEXT, entries, listing, mapping
from services.rehearsal.story import NAMED, About
from shared.simulation.gpu import catalogue
from shared.waiting.reasons import Reason

FILE = pathlib.Path(__file__).parents[2] / "docs" / "rehearsal.schema.json"
Schema = dict[str, Any]

_SLOTS = mapping(dict.fromkeys(vocabulary.SLOT_STATES, COUNT))
_LISTING_OR_COUNT = {"anyOf": [listing(TEXT), COUNT]}
SHAPES: Mapping[object, Schema] = {
    vocabulary.count: COUNT,
    vocabulary.text: TEXT,
    vocabulary.truth: {"type": "boolean"},
    vocabulary.counts: entries(COUNT),
    vocabulary.texts: entries({"type": [*TEXT["type"], "null"]}),
    vocabulary.listing: listing(TEXT),
    vocabulary.listing_or_count: _LISTING_OR_COUNT,
    vocabulary.pods: listing(TEXT),
    vocabulary.slots: entries(_SLOTS),
    vocabulary.pod: {"type": "string"},
    vocabulary.reason: {"enum": [reason.value for reason in Reason]},
    vocabulary.place: {"type": ["integer", "string"]},
    vocabulary.by_gpu: entries(COUNT),
    vocabulary.geometry: entries(entries(COUNT)),
}


def whole() -> Schema:
    """The schema of a story."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A rehearsal: a story played on a cluster, and what must be seen",
        **mapping(
            {
                "nodes": listing({"$ref": "#/definitions/node"}),
                "configMaps": entries(entries({"type": "string"})),
                "values": {"type": "object", "description": "values of the chart"},
                "steps": listing({"$ref": "#/definitions/step"}),
            },
            required=("nodes", "steps"),
        ),
        "definitions": {
            "node": _node(),
            "step": schema_steps.step(),
            "conditions": _conditions(()),
            "expectation": _conditions(("within", "for")),
        },
    }


def _node() -> Schema:
    names = (*cast.SWITCHES, cast.STALE)
    switches = dict.fromkeys(names, schema_steps.TRUTH) | {"statusPeriod": schema_steps.DURATION}
    instance = mapping(
        {"profile": {"type": "string"}, "start": COUNT}, required=("profile", "start")
    )
    models: Schema = {"enum": list(catalogue.models())}
    special: dict[str, Schema] = {
        "model": models,
        "uuid": {"type": "string"},
        "memoryMiB": COUNT,
        "pciDevice": {"type": ["integer", "string"]},
        "migMode": {"type": "boolean"},
        "instances": listing(instance),
        "profileIds": entries(COUNT),
    }
    gpu = {"anyOf": [models, mapping(special, required=("model",))]}
    parts = {
        "name": {"type": "string"},
        "gpus": listing(gpu),
        "labels": MAP_OF_TEXTS,
        "kubelet": mapping(switches),
    }
    return mapping(parts, required=("name",))


def _conditions(extra: Sequence[str]) -> Schema:
    """Conditions on a node, on a pod, or on neither; nested ones go with each."""
    more = {about.value: _shaped(about) for about in NESTED}
    more |= dict.fromkeys(extra, schema_steps.DURATION)
    forms = [
        mapping({about.value: {"type": "string"}} | _keys(about) | more, required=(about.value,))
        for about in NAMED
    ]
    return {"anyOf": [*forms, mapping(more)]}


def _shaped(about: About) -> Schema:
    return mapping(_keys(about), required=vocabulary.GIVEN.get(about, ()))


def _keys(about: About) -> dict[str, Schema]:
    return {key: _shape(shape) for key, shape in vocabulary.KEYS[about].items()}


def _shape(shape: object) -> Schema:
    if isinstance(shape, vocabulary.Fields):
        return mapping(dict.fromkeys(shape.names, TEXT))
    return SHAPES[shape]


def main(arguments: Iterable[str] = sys.argv[1:]) -> int:
    """Write the file; with `--check` only say whether it stands as it would be written."""
    text = json.dumps(whole(), indent=2) + "\n"
    if "--check" not in list(arguments):
        FILE.write_text(text, encoding="utf-8")
        return 0
    if FILE.exists() and FILE.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(f"{FILE.name} is not what the vocabulary says: run `make schema`\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
