"""`status`, `who` and `trace` on a live cluster: forms, exit statuses, and the bus being away."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from services.rehearsal import engine, language
from services.rehearsal.embedded import cluster as clusters
from services.rehearsal.embedded.playing import Embedded
from services.rehearsal.outcome import Result
from shared.contract.table import Role
from shared.simulation.broker import Broker

UUID = "GPU-00000000-0000-0000-0000-000000000001"
STORY = f"""\
nodes:
  - name: gpu-a.lan
    gpus: [t4, {{model: t4, uuid: {UUID}}}]
configMaps:
  sharing:
    any: |-
      version: v1
      sharing: {{timeSlicing: {{resources: [{{name: nvidia.com/gpu, replicas: 2}}]}}}}
steps:
  - expect: {{node: gpu-a.lan, allocatable: {{nvidia.com/gpu: 4}}, within: 20s}}
  - pod: {{name: a, requests: {{nvidia.com/gpu: 2}}}}
  - expect: {{node: gpu-a.lan, slots: {{nvidia.com/gpu: {{held: 2}}}}}}
  - expect: {{trace: {{from: pod, covers: [allocate slots]}}}}
  - pod: {{name: waits, requests: {{nvidia.com/gpu: 3}}}}
  - expect: {{why: {{pod: waits, reason: AllHeld}}}}
"""


async def called(variables: Mapping[str, str], *words: str) -> tuple[int, str, str]:
    """Run a command; return its status and what it said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "services.cli"),
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | dict(variables),
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def answered(variables: Mapping[str, str], *words: str) -> dict[str, Any]:
    """The JSON object of a command that ends with 0."""
    status, out, err = await called(variables, *words, "-o", "json")
    assert status == 0, err
    form: dict[str, Any] = json.loads(out)
    return form


@pytest.mark.timeout(240)
async def test_commands_answer_in_the_forms_that_programs_rely_on() -> None:
    """One cluster with one pod, asked by every command."""
    story = await asyncio.to_thread(language.read, STORY, "s.yaml")
    told: list[Result] = []
    async with clusters.opened(story) as cluster:
        cluster.keep = False
        outcome = await engine.play(story, Embedded(cluster), told.append)
        assert outcome.ok, outcome.results[-1].form()
        user, password_file = cluster.broker.credentials(Role.COMMAND)
        bus = {
            "SLICEWIRE_BUS_URL": cluster.broker.url,
            "SLICEWIRE_BUS_USER": user,
            "SLICEWIRE_BUS_PASSWORD_FILE": str(password_file),
        }
        await status(bus)
        await who(bus)
        await why(bus)
        await trace(bus)


async def status(bus: Mapping[str, str]) -> None:
    """`status` tells config, GPUs and services; an unknown node is 1."""
    (node,) = (await answered(bus, "status", "gpu-a.lan"))["nodes"]
    assert node.keys() == {"name", "config", "mig", "gpus", "resources", "services", "stale"}
    assert node["config"].keys() == {"key", "source", "generation", "state", "reason"}
    assert (node["config"]["key"], node["config"]["state"]) == ("any", "applied")
    assert [gpu["uuid"] for gpu in node["gpus"]][1] == UUID
    assert node["gpus"][1].keys() == {
        *("index", "uuid", "model", "health", "reason", "slots", "instances"),
        *("mig", "migPending", "slices", "used", "mps"),
    }
    assert node["gpus"][1]["slots"] == {
        "total": 2,
        "free": 1,
        "granted": 0,
        "held": 1,
        "retiring": 0,
        "unhealthy": 0,
    }
    assert node["services"].keys() == {"controller", "advertiser", "allocator", "agent"}
    assert all(each["seen"] and each["version"] for each in node["services"].values())
    assert (await called(bus, "status", "gpu-b.lan"))[0] == 1
    fleet = await answered(bus, "status")
    assert fleet["why"] == [
        {
            "reason": "AllHeld",
            "pods": 1,
            "first": "default/waits",
            "sentence": "2 of 4 slots of nvidia.com/gpu are free, 3 are wanted",
        }
    ]
    assert (fleet["waiting"], [each["resource"] for each in fleet["resources"]]) == (
        1,
        ["nvidia.com/gpu"],
    )
    lines = await called(bus, "status")
    assert "1 held, 1 free" in lines[1]
    assert (await called(bus, "status", "--watch", "-o", "json"))[0] == 2


async def who(bus: Mapping[str, str]) -> None:
    """`who` names the pod by GPU, by node and by itself; what nobody holds is an empty list."""
    by_gpu = (await answered(bus, "who", "--gpu", UUID))["holders"]
    assert [(row["node"], row["gpu"], row["uuid"], row["pod"]) for row in by_gpu] == [
        ("gpu-a.lan", 1, UUID, "default/a")
    ]
    assert by_gpu[0].keys() == {
        *("node", "gpu", "uuid", "slot", "resource", "pod", "container", "since", "trace"),
    }
    assert len((await answered(bus, "who", "--node", "gpu-a.lan"))["holders"]) == 2
    assert len((await answered(bus, "who", "--pod", "default/a"))["holders"]) == 2
    assert (await called(bus, "who", "--pod", "default/b"))[0] == 1
    assert (await called(bus, "who", "--pod", "b"))[0] == 2
    assert (await called(bus, "who"))[0] == 2


async def why(bus: Mapping[str, str]) -> None:
    """`why` answers for pods that wait and pods that run; others are 1, with the nearest name."""
    found = await answered(bus, "why", "default/waits")
    assert (found["pod"], found["reason"], found["hint"]) == (
        "default/waits",
        "AllHeld",
        "held by default/a",
    )
    (node,) = found["nodes"]
    assert (
        node.items()
        >= {
            "node": "gpu-a.lan",
            "reason": "AllHeld",
            "wanted": 3,
            "total": 4,
            "free": 2,
            "held": 2,
            "unhealthy": 0,
            "hint": "held by default/a",
        }.items()
    )
    runs = await answered(bus, "why", "default/a")
    assert (runs["reason"], len(runs["slots"])) == ("Running", 2)
    assert "AllHeld" in (await called(bus, "why", "default/waits"))[1]
    status, out, err = await called(bus, "why", "default/wait", "-o", "json")
    assert (status, json.loads(out)["ok"]) == (1, False)
    assert 'did you mean "default/waits"?' in err
    for words in ((), ("waits",), ("default/",), ("a/b/c",)):
        assert (await called(bus, "why", *words))[0] == 2


async def trace(bus: Mapping[str, str]) -> None:
    """`trace` finds the newest, a node's newest, and the one that a holder's row names."""
    (row, _) = (await answered(bus, "who", "--pod", "default/a"))["holders"]
    named = await answered(bus, "trace", row["trace"][:12])
    assert named["trace"] == row["trace"]
    assert "allocate slots" in {branch["name"] for branch in named["spans"]}
    assert (await answered(bus, "trace", "gpu-a.lan"))["spans"]
    assert (await answered(bus, "trace", "--last"))["whole"]
    newest, *_ = (await answered(bus, "trace"))["traces"]
    assert newest["spans"][0]["name"] == "change config"
    assert "change config" in (await called(bus, "trace"))[1]
    assert (await called(bus, "trace", "ffff"))[0] == 1


async def test_a_bus_that_is_away_is_a_sentence_and_1() -> None:
    """The command says where it looked, why it failed, and which flags to check."""
    status, out, err = await called({}, "status", "--bus-url", "nats://127.0.0.1:1", "-o", "json")
    assert (status, json.loads(out)["ok"]) == (1, False)
    assert "not on the bus at nats://127.0.0.1:1" in err
    assert "--bus-url" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("words", [("status",), ("status", "--watch"), ("who", "--node", "a")])
async def test_a_bus_without_streams_is_a_sentence_and_1(
    short: pathlib.Path, words: tuple[str, ...]
) -> None:
    """No controller has ever been there: the command says what is missing."""
    broker = Broker(short, ["a"])
    await broker.start()
    try:
        user, password_file = broker.credentials(Role.COMMAND)
        bus = {
            "SLICEWIRE_BUS_URL": broker.url,
            "SLICEWIRE_BUS_USER": user,
            "SLICEWIRE_BUS_PASSWORD_FILE": str(password_file),
        }
        status, out, err = await called(bus, *words)
    finally:
        await broker.stop()
    assert (status, out) == (1, "")
    assert "is a controller running?" in err
    assert "Traceback" not in err
