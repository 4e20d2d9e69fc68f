"""What stories do to machines and their pods: processes on GPUs, evictions, budgets, boots."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from services.rehearsal import engine, language
from services.rehearsal.embedded import cluster as clusters
from services.rehearsal.embedded.cluster import Cluster
from services.rehearsal.embedded.playing import Embedded
from services.rehearsal.story import Story
from shared.runtime import clock
from shared.simulation.kube.apiserver import pods, refusals
from shared.simulation.kube.apiserver.rules import Deletion

NODE = "gpu-a.lan"
FRAME = f"""\
nodes:
  - name: {NODE}
    gpus:
      - t4
      - {{model: a100-80gb, migMode: true, instances: [{{profile: 3g.40gb, start: 4}}]}}
configMaps:
  sharing:
    any: |-
      version: v1
      flags: {{migStrategy: mixed}}
      sharing: {{timeSlicing: {{resources: [{{name: nvidia.com/gpu, replicas: 4}}]}}}}
steps:
"""
BEFORE = f"""\
  - expect:
      node: {NODE}
      allocatable: {{nvidia.com/gpu: 4, nvidia.com/mig-3g.40gb: 1}}
      within: 20s
  - pod:
      name: a
      requests: {{nvidia.com/mig-3g.40gb: 1}}
      uses: {{memoryMiB: 1024}}
      graceSeconds: 1
  - pod: {{name: b, requests: {{nvidia.com/gpu: 1}}, labels: {{app: web}}}}
  - pod: {{name: big, requests: {{nvidia.com/gpu: 1}}, uses: {{memoryMiB: 900000}}}}
  - pod: {{name: plain, requests: {{}}}}
  - expect: {{pod: a, phase: Running, evicted: false}}
  - expect: {{pod: b, phase: Running}}
  - expect: {{pod: big, phase: Failed}}
  - expect: {{pod: plain, phase: Running, restarts: 0}}
  - expect: {{node: {NODE}, kept: {{1: 1}}}}
  - pdb: {{name: web, selector: {{app: web}}, minAvailable: 1}}
"""
AFTER = f"""\
  - expect: {{pod: a, evicted: true}}
  - expect: {{pod: b, evicted: false, phase: Running}}
  - expect: {{node: {NODE}, slots: {{nvidia.com/mig-3g.40gb: {{free: 1}}}}}}
  - reboot: {{node: {NODE}}}
  - expect: {{node: {NODE}, geometry: {{1: {{}}}}, kept: {{1: 0}}}}
  - expect: {{pod: plain, phase: Running, restarts: 1}}
  - expect: {{pod: b, phase: Failed, reason: UnexpectedAdmissionError, evicted: false}}
  - expect:
      node: {NODE}
      allocatable: {{nvidia.com/gpu: 4, nvidia.com/mig-3g.40gb: 0}}
      within: 20s
"""


def parts() -> tuple[Story, Story]:
    """The story in two: what is done from outside comes between."""
    whole = language.read(FRAME + BEFORE + AFTER, "s.yaml")
    here = BEFORE.count("\n  - ") + 1
    before, after = whole.steps[:here], whole.steps[here:]
    return dataclasses.replace(whole, steps=before), dataclasses.replace(whole, steps=after)


async def play(story: Story, stage: Embedded) -> None:
    """Play a part; all of it has to be seen."""
    outcome = await engine.play(story, stage, lambda _: None)
    last = outcome.results[-1]
    assert outcome.ok, (last.why, last.seen)


async def processes(cluster: Cluster) -> list[dict[str, Any]]:
    """What computes on the node's GPUs."""
    found: list[dict[str, Any]] = (await cluster.nodes[NODE].hardware.describe())["processes"]
    return found


def evict(cluster: Cluster, name: str) -> int:
    """Evict a pod; return the server's code."""
    try:
        pods.evict(cluster.api.objects, "default", name, Deletion(), clock.now_ns())
    except refusals.Refused as refused:
        return refused.code
    return 201


@pytest.mark.timeout(120)
async def test_pods_have_processes_may_be_evicted_and_go_down_with_their_machine() -> None:
    """`uses`, `pdb`, `evicted` and `reboot` do what they say, and it can be seen."""
    before, after = await asyncio.to_thread(parts)
    async with clusters.opened(before) as cluster:
        cluster.keep = False
        stage = Embedded(cluster)
        await play(before, stage)
        (process,) = await processes(cluster)
        assert (process["gpu"], process["name"], process["memoryMiB"]) == (1, "a", 1024)
        assert process["uuid"].startswith("MIG-")
        assert (evict(cluster, "a"), evict(cluster, "b")) == (201, 429)
        pids = {each.pid for each in cluster.nodes[NODE].everything}
        await play(after, stage)
        assert await processes(cluster) == []
        assert len(pids - {each.pid for each in cluster.nodes[NODE].everything}) == 3
        assert not cluster.ended_badly()
