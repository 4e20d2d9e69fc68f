"""The steps of a story as JSON Schema; a test compares them with what the reader accepts."""

from __future__ import annotations

import inspect
from typing import Any

from services.rehearsal import story
from services.rehearsal.schema_words import (
    COUNT,
    MAP_OF_TEXTS,
    PERCENT,
    TEXT,
    entries,
    listing,
    mapping,
)

Schema = dict[str, Any]

NAME: Schema = {"type": "string", "minLength": 1}
TRUTH: Schema = {"type": "boolean"}
DURATION: Schema = {
    "type": "string",
    "pattern": r"^(?=.)(\d+(\.\d+)?m)?(\d+(\.\d+)?s)?(\d+ms)?$",
    "description": "a duration: 10s, 500ms, 1m30s",
}

_REQUESTS = entries(COUNT)
_ON_NODE = mapping({"node": NAME}, required=("node",))
_CONTAINER = mapping({"name": NAME, "requests": _REQUESTS}, required=("name",))
_POD = mapping(
    {
        "name": NAME,
        "namespace": NAME,
        "requests": _REQUESTS,
        "containers": listing(_CONTAINER),
        "init": mapping({"requests": _REQUESTS}, required=("requests",)),
        "node": NAME,
        "labels": MAP_OF_TEXTS,
        "owner": {"enum": [each.value for each in story.Owner]},
        "graceSeconds": COUNT,
        "uses": mapping({"memoryMiB": COUNT, "sm": PERCENT}, required=("memoryMiB",)),
    },
    required=("name",),
)
_BUDGET = mapping(
    {
        "name": NAME,
        "namespace": NAME,
        "selector": MAP_OF_TEXTS,
        "minAvailable": {"anyOf": [COUNT, {"type": "string", "pattern": "^[0-9]+%$"}]},
    },
    required=("name", "selector", "minAvailable"),
)
_CALL = mapping(
    {
        "call": {"type": "string", "description": "NVML's symbol: nvmlDeviceGetUUID"},
        "gpu": COUNT,
        "nth": COUNT,
        "error": {"type": "string", "description": "the code's name: GPU_IS_LOST"},
        "times": COUNT,
        "delay": TEXT,
    },
    required=("call",),
)
_CLIENT = mapping({"gpu": COUNT, "name": NAME, "pid": COUNT}, required=("gpu", "name", "pid"))
_FAULT = mapping(
    {
        "node": NAME,
        "gpu": COUNT,
        "xid": COUNT,
        "instance": COUNT,
        "lost": TRUTH,
        "nvml": _CALL,
        "modeStaysPending": {"enum": [True, "reset", "reboot", "healed"]},
        "clients": listing(_CLIENT),
        "mps": {"enum": ["down"]},
    },
    required=("node",),
)
_SERVICE = mapping(
    {"service": {"enum": [each.value for each in story.Service]}, "node": NAME},
    required=("service",),
)
_DATA = {"anyOf": [entries({"type": "string"}), {"type": "null"}]}
_SET = entries({"type": [*TEXT["type"], "null"]})

STEPS: dict[str, tuple[type, Schema]] = {
    "say": (story.Say, NAME),
    "configMap": (
        story.ConfigMap,
        mapping({"name": NAME, "data": _DATA}, required=("name", "data")),
    ),
    "label": (story.Label, mapping({"node": NAME, "set": _SET}, required=("node", "set"))),
    "pod": (story.Pod, _POD),
    "delete": (story.Delete, mapping({"pod": NAME, "force": TRUTH}, required=("pod",))),
    "pdb": (story.Budget, _BUDGET),
    "cordon": (story.Cordon, _ON_NODE),
    "uncordon": (story.Cordon, _ON_NODE),
    "fault": (story.Fault, _FAULT),
    "heal": (story.Fault, _FAULT),
    **{verb.value: (story.Manage, _SERVICE) for verb in story.Verb},
    "reboot": (story.Reboot, _ON_NODE),
    "mark": (story.Mark, NAME),
    "wait": (story.Wait, DURATION),
    "expect": (story.Expect, {"$ref": "#/definitions/expectation"}),
    "never": (story.Never, {"$ref": "#/definitions/conditions"}),
}


def step() -> Schema:
    """One step: exactly one kind, and a name if it has one."""
    kinds = {
        kind: {"description": _says(action), "allOf": [schema]}
        for kind, (action, schema) in STEPS.items()
    }
    kinds["as"] = NAME | {"description": "a name, for a later `trace` to begin from"}
    return mapping(kinds) | {"oneOf": [{"required": [kind]} for kind in STEPS]}


def _says(action: type) -> str:
    return (inspect.getdoc(action) or "").split("\n\n")[0].replace("\n", " ")
