"""Every condition of the language can be seen, and can fail."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from services.rehearsal import engine, language, vocabulary
from services.rehearsal.embedded import cluster as clusters
from services.rehearsal.embedded.playing import Embedded
from services.rehearsal.outcome import Result
from services.rehearsal.story import Expect, Never, Story
from tests.support.eventually import eventually

FRAME = """\
nodes:
  - name: gpu-a.lan
    gpus:
      - t4
      - {model: t4, uuid: GPU-00000000-0000-0000-0000-000000000001}
      - {model: a100-80gb, migMode: true, instances: [{profile: 3g.40gb, start: 4}]}
configMaps:
  sharing:
    any: |-
      version: v1
      sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}
steps:
  - expect: {node: gpu-a.lan, allocatable: {nvidia.com/gpu: 6}, within: 20s}
  - pod: {name: a, requests: {nvidia.com/gpu: 2}}
  - pod: {name: b, requests: {nvidia.com/gpu: 9}, node: gpu-a.lan}
  - pod: {name: c, requests: {nvidia.com/gpu: 7}}
  - expect: {pod: a, phase: Running}
  - expect: {pod: b, phase: Failed}
"""
# condition: what is so, what is not
NODE = {
    "capacity": ("{nvidia.com/gpu: 6}", "{nvidia.com/gpu: 5}"),
    "allocatable": ("{nvidia.com/gpu: 6}", "{nvidia.com/mig-1g.5gb: 1}"),
    "labels": (
        '{nvidia.com/gpu.replicas: "2", absent: null}',
        "{nvidia.com/gpu.replicas: null}",
    ),
    "schedulable": ("true", "false"),
    "condition": ('{type: Ready, status: "True"}', '{type: Ready, status: "False"}'),
    "event": ("{reason: ConfigApplied, message: ~sharing/any}", "{reason: ConfigRefused}"),
    "geometry": ("{0: {}, 2: {3g.40gb: 1}}", "{2: {}}"),
    "kept": ("{2: 1}", "{2: 2}"),
    "rejections": ("1", "0"),
    "slots": ("{nvidia.com/gpu: {held: 2, free: 4}}", "{nvidia.com/gpu: {held: 1}}"),
    "registrations": ("1", "2"),
    "lists": ("0", "1"),
}
POD = {
    "phase": ("Running", "Pending"),
    "reason": ("~^$", "Evicted"),  # of pod b below
    "message": ("~rejected", "~accepted"),  # of pod b below
    "node": ("gpu-a.lan", "gpu-b.lan"),
    "slots": ("2", "1"),
    "gpus": ("2", "1"),
    "uuids": (
        "[~^GPU-, GPU-00000000-0000-0000-0000-000000000001]",
        "[GPU-00000000-0000-0000-0000-000000000001]",
    ),
    "env": ("{NVIDIA_VISIBLE_DEVICES: ~GPU-.*,GPU-, X: null}", "{NVIDIA_VISIBLE_DEVICES: all}"),
    "devices": ("5", "[/dev/nvidia0]"),
    "mounts": ("0", "[/dev/shm]"),
    "cdi": ("0", "[~^nvidia.com/gpu=]"),
    "evicted": ("false", "true"),
    "restarts": ("0", "1"),
    "event": ("{reason: UnexpectedAdmissionError}", "{reason: Killing}"),  # of pod b below
}
OF_B = {"reason": ("UnexpectedAdmissionError", "Evicted")}
OTHERS = {
    "who": (
        "{node: gpu-a.lan, gpu: 1, pods: [default/a]}",
        "{node: gpu-a.lan, gpu: 1, pods: []}",
    ),
    "why": (
        "{pod: c, reason: RequestTooLarge, sentence: ~than any node has, hint: ~ask for 6}",
        "{pod: c, reason: AllHeld}",
    ),
    "trace": (
        "{from: pod, covers: [allocate slots], connected: true}",
        "{from: pod, covers: [~no such step]}",
    ),
    "bus": ("{consumers: 0, streams: 9}", "{consumers: 1}"),
    "api": ("{watches: 4}", "{requests: 100000}"),
}
TOLD_OF_B = ("reason", "message", "event")


def rows() -> list[tuple[str, str]]:
    """Each condition as YAML, in a form that is so and one that is not."""
    found = [(f"{{node: gpu-a.lan, {key}: {{}}}}", pair) for key, pair in NODE.items()]
    for key, pair in (POD | OF_B).items():
        pod = "b" if key in TOLD_OF_B else "a"
        found.append((f"{{pod: {pod}, {key}: {{}}}}", pair))
    found += [(f"{{{about}: {{}}}}", pair) for about, pair in OTHERS.items()]
    return [tuple(form.replace("{}", each) for each in pair) for form, pair in found]  # type: ignore[misc]


def with_steps(verb: str, conditions: list[str]) -> Story:
    """The story with one step for each condition."""
    steps = "".join(f"  - {verb}: {each}\n" for each in conditions)
    return language.read(FRAME + steps, "s.yaml")


def test_no_condition_is_left_out() -> None:
    """Each key of the vocabulary has a row here."""
    named = {about.value: set(keys) for about, keys in vocabulary.KEYS.items()}
    assert named.pop("node") == NODE.keys()
    assert named.pop("pod") == POD.keys()
    assert named.keys() == OTHERS.keys()


@pytest.mark.timeout(120)
async def test_every_condition_is_seen_where_it_is_so_and_fails_where_it_is_not() -> None:
    """One cluster, looked at by each condition in two forms."""
    right = await asyncio.to_thread(with_steps, "expect", [so for so, _ in rows()])
    wrong = await asyncio.to_thread(with_steps, "never", [not_so for _, not_so in rows()])
    told: list[Result] = []
    async with clusters.opened(right) as cluster:
        cluster.keep = False
        stage = Embedded(cluster)
        outcome = await engine.play(right, stage, told.append)
        assert outcome.ok, outcome.results[-1].form()
        for step in wrong.steps:
            if isinstance(step.action, Never):
                expect = Expect(conditions=step.action.conditions, within_s=0)
                once = dataclasses.replace(step, action=expect)
                failed = await engine.play(
                    dataclasses.replace(wrong, steps=(once,)), stage, told.append
                )
                assert not failed.ok, step.action.words()
                assert failed.results[0].why.startswith("not within 0 s: ")
                assert failed.results[0].seen
        await eventually(lambda: not cluster.ended_badly())
    assert not await asyncio.to_thread(cluster.folder.exists)
