"""MIG changes with every node service a process of its own, and pods that run meanwhile."""

from __future__ import annotations

import pathlib

from shared.contract.generation import Generation
from shared.contract.messages import Phase
from tests.integration.agent.rig import WITHIN, Site, site
from tests.support.eventually import eventually
from tests.support.mig_world import rows
from tests.support.one_node import pod_object

FIRST, SECOND = Generation(1, 1), Generation(1, 2)
MIXED = {
    "model": "a100-80gb",
    "migMode": "on",
    "instances": [
        {"profile": name, "start": start}
        for name, start in (("1g.10gb", 0), ("1g.10gb", 1), ("2g.20gb", 2), ("3g.40gb", 4))
    ],
}
ONE, TWO, THREE = (f"nvidia.com/mig-{name}" for name in ("1g.10gb", "2g.20gb", "3g.40gb"))
GPU = "nvidia.com/gpu"


async def test_instances_change_under_running_pods(short: pathlib.Path) -> None:
    """U113, U065: kept devices serve on, the new ones are with the kubelet, the old names at 0."""
    async with site(short, MIXED, "a100-80gb") as here:
        here.want("", generation=FIRST)
        await here.node.until_counts((2, 2), ONE)
        await here.node.until_counts((1, 1), GPU)
        for name, resource in (("stays", ONE), ("goes", THREE), ("whole", GPU)):
            await here.node.create(pod_object(name, {resource: 1}))
            await here.node.until_phase(name, "Running")
        (held,) = [
            slots for pod, [(_, slots)] in (await here.node.holders()).items() if pod == "stays"
        ]
        here.want("seven", rows({"1g.10gb": 7})[0], generation=SECOND)
        said = await here.until(Phase.SUCCESS, SECOND)
        assert "7 x 1g.10gb" in said.sentence
        await here.node.until_counts((7, 7), ONE)
        await eventually(lambda: _gone(here, THREE), within=WITHIN)
        assert here.evicted == {"goes"}
        assert await here.node.phase("stays") == "Running"
        assert await here.node.phase("whole") == "Running"
        assert (await here.node.holders())["stays"] == [(ONE, held)]
        assert held[0] in [each["uuid"] for each in (await here.gpus())[0]["instances"]]
        assert not await here.writes(1)
        assert not here.holds[-1].recut
        await eventually(
            lambda: _told(here, "plan layout", "empty slots", "cut GPU", "create instance"),
            within=WITHIN,
        )


async def _gone(here: Site, resource: str) -> bool:
    counts = await here.node.counts(resource)
    return counts is None or counts[1] == 0


async def _told(here: Site, *names: str) -> bool:
    """Whether the change's trace has these spans."""
    return set(names) <= {span.name for span in await here.spans()}


async def test_a_whole_gpu_becomes_mig_with_nvml_let_go_and_a_reset(short: pathlib.Path) -> None:
    """The reset works only when no service of the node has NVML open; the way back as well."""
    async with site(short, "a100-80gb", MIXED) as here:
        here.want("", generation=FIRST)
        await here.node.until_counts((1, 1), GPU)
        await here.here.hardware.fault({"gpu": 0, "modeStaysPending": "reset"})
        here.want("halves", rows({"3g.40gb": 2})[0], generation=SECOND)
        await here.until(Phase.SUCCESS, SECOND)
        await here.node.until_counts((3, 3), THREE)
        await eventually(lambda: _gone(here, GPU), within=WITHIN)
        assert (await here.writes(0))["nvidia-smi --gpu-reset"] == 1
        assert any(each.paused_for == SECOND for each in here.inventories)
        assert here.inventories[-1].paused_for is None
        third = SECOND.next()
        here.want("whole", rows(None)[0], generation=third)
        await here.until(Phase.SUCCESS, third)
        await here.node.until_counts((1, 1), GPU)
        await here.node.until_counts((1, 1), THREE)


async def test_the_agent_is_killed_while_pods_are_waited_for(short: pathlib.Path) -> None:
    """Its successor finds journal, hold and preparation, and goes on in the same trace."""
    async with site(short, MIXED) as here:
        here.want("", generation=FIRST)
        await here.node.until_counts((1, 1), THREE)
        await here.node.create(pod_object("goes", {THREE: 1}))
        await here.node.until_phase("goes", "Running")
        here.evicts = False
        here.want("seven", rows({"1g.10gb": 7})[0], generation=SECOND)
        await here.until(Phase.HOLDING, SECOND)
        await eventually(lambda: _told(here, "plan layout"), within=WITHIN)
        order = here.holds[-1].order
        await here.agent.kill()
        # While somebody holds one of them all withheld slots stay listed, as not healthy.
        await here.node.until_counts((1, 0), TWO)
        await here.agent.start()
        here.evicts = True
        await here.until(Phase.SUCCESS, SECOND)
        assert {each.order for each in here.holds if each.recut} == {order}
        await here.node.until_counts((7, 7), ONE)
        await eventually(lambda: _told(here, "plan layout", "create instance"), within=WITHIN)
