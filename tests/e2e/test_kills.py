"""Each part is killed in the middle of MIG changes: none of them is left half done or forgotten.

The agent's own steps are gone through one by one in tests/unit/agent; here every part runs as a
process, and what it leaves behind is on disk, on the bus and on the node.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from typing import Any

import pytest

from services.reconfigurer.controller import prepare
from services.rehearsal import language
from services.rehearsal.embedded import acts, instances
from services.rehearsal.embedded import cluster as clusters
from services.rehearsal.embedded.cluster import Cluster
from services.rehearsal.story import (
    NODE_SERVICES,
    Container,
    Fault,
    Label,
    Manage,
    Pod,
    Service,
    Uses,
    Verb,
)
from shared.contract import names
from shared.contract.messages import Phase
from shared.runtime import clock
from tests.support.eventually import eventually

NODE = "gpu-a.lan"
DCGM = f"{names.COMPONENT_LABELS}dcgm"
STORY = f"""\
nodes:
  - name: {NODE}
    gpus: [{{model: a100-80gb, migMode: true, instances: [{{profile: 7g.80gb, start: 0}}]}}]
    labels: {{{DCGM}: "true"}}
configMaps:
  sharing: {{any: "{{version: v1, flags: {{migStrategy: mixed}}}}"}}
steps:
  - expect: {{node: {NODE}, allocatable: {{nvidia.com/mig-7g.80gb: 1}}, within: 30s}}
"""
AWAY_S = 0.5  # between a kill and the start of a successor
LAYOUTS: dict[str, dict[str, int]] = {
    "all-3g.40gb": {"3g.40gb": 2},
    "all-1g.10gb": {"1g.10gb": 7},
    "all-disabled": {},
}


@dataclass(frozen=True)
class Kill:
    """Who is killed, and at which phase of the agent."""

    service: Service
    phase: Phase


KILLS = (
    Kill(Service.CONTROLLER, Phase.PREPARE),
    Kill(Service.CONTROLLER, Phase.HOLDING),
    Kill(Service.AGENT, Phase.HOLDING),
    Kill(Service.AGENT, Phase.APPLYING),
    Kill(Service.ALLOCATOR, Phase.HOLDING),
    Kill(Service.ADVERTISER, Phase.HOLDING),
    Kill(Service.BUS, Phase.APPLYING),
)


@dataclass
class Stage:
    """The node under test, as its observers see it."""

    cluster: Cluster
    changes: int = 0

    @property
    def body(self) -> dict[str, Any]:
        """The node object."""
        return self.cluster.api.store.get("nodes", "", NODE) or {}

    @property
    def state(self) -> str:
        """`nvidia.com/mig.config.state`."""
        return str(self.body["metadata"]["labels"].get(names.MIG_STATE_LABEL))

    def phase(self) -> Phase | None:
        """What the agent said last."""
        said = self.cluster.book.progresses.get(NODE)
        return said.phase if said else None

    async def geometry(self) -> dict[str, int]:
        """Instances by profile."""
        found = await instances.observe(self.cluster.nodes[NODE], {})
        return dict(found["geometry"]["0"])

    async def hold_one(self, layout: str) -> str:
        """A pod has a slot of the layout that stands; it goes when it is evicted, not at once."""
        profile = next(iter(LAYOUTS[layout]), "")
        resource = f"nvidia.com/mig-{profile}" if profile else "nvidia.com/gpu"
        self.changes += 1
        name = f"holder-{self.changes}"
        containers = (Container(name="main", requests={resource: 1}),)
        pod = Pod(name=name, containers=containers, grace_seconds=1, uses=Uses(memory_mib=512))
        await acts.act(self.cluster, pod)
        await eventually(lambda: self.cluster.nodes[NODE].kubelet.pod(f"default/{name}"), within=30)
        return f"default/{name}"

    async def kill(self, kill: Kill) -> None:
        """Kill it at its moment, and start it again."""
        await eventually(lambda: self.phase() is kill.phase, within=30)
        node = NODE if kill.service in NODE_SERVICES else None
        await acts.act(self.cluster, Manage(verb=Verb.KILL, service=kill.service, node=node))
        await clock.sleep(AWAY_S)
        await acts.act(self.cluster, Manage(verb=Verb.START, service=kill.service, node=node))

    async def change(self, layout: str, kill: Kill) -> None:
        """Ask for a layout, kill somebody on the way, and see how it ends."""
        await acts.act(self.cluster, Label(node=NODE, labels={names.MIG_CONFIG_LABEL: layout}))
        await self.kill(kill)
        await eventually(lambda: self.stands(layout), within=90)

    async def stands(self, layout: str) -> bool:
        """Whether a layout is there and told, and nothing else is left of the change."""
        if self.state != "success" or self.left():
            return False
        return await self.geometry() == LAYOUTS[layout]

    def left(self) -> list[str]:
        """What a change may not leave on the node."""
        metadata = self.body["metadata"]
        found = [mark for mark in prepare.MARKS if mark in metadata["annotations"]]
        found += ["a cordon"] * bool(self.body["spec"].get("unschedulable"))
        found += ["a paused component"] * (metadata["labels"].get(DCGM) != "true")
        return found


@pytest.mark.timeout(300)
async def test_a_change_outlives_the_death_of_every_part() -> None:
    """Success each time, no cordon, no paused component, and no pod that was refused or failed."""
    story = await asyncio.to_thread(language.read, STORY, "s.yaml")
    slow = {"nvml": {"call": "nvmlGpuInstanceDestroy", "delay": "400ms"}}
    async with clusters.opened(story) as cluster:
        cluster.keep = False
        stage = Stage(cluster)
        await acts.act(cluster, Fault(node=NODE, what=slow, heal=False))
        layouts = itertools.cycle(LAYOUTS)
        stands = next(layouts)
        await acts.act(cluster, Label(node=NODE, labels={names.MIG_CONFIG_LABEL: stands}))
        await eventually(lambda: stage.stands(stands), within=60)
        for kill in KILLS:
            pod = await stage.hold_one(stands)
            stands = next(layouts)
            await stage.change(stands, kill)
            assert pod in cluster.evictions, kill
        assert cluster.nodes[NODE].kubelet.record.rejections == []
        assert not cluster.ended_badly()
