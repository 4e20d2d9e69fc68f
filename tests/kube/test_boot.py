"""A node that boots: what is offered before anybody has looked at its GPUs, and after."""

from __future__ import annotations

from shared.contract import names
from shared.simulation.kube import paths
from tests.kube import ours
from tests.kube.ours import CONFIG_MAPS, Ours
from tests.support.eventually import eventually
from tests.support.node_view import GPU, NAME
from tests.support.one_node import pod_object

MIXED = "version: v1\nflags: {migStrategy: mixed}\n"
ONE_CUT = """\
version: v1
mig-configs:
  one-cut:
    - {devices: [0], mig-enabled: true, mig-devices: {1g.10gb: 7}}
    - {devices: [1], mig-enabled: false}
"""
SLICES = "nvidia.com/mig-1g.10gb"


async def test_slices_are_not_handed_out_before_they_have_been_seen_again(slicewire: Ours) -> None:
    """A boot takes them away; whole GPUs are served at once, by what was known before."""
    node, services = slicewire.node, slicewire.services
    await _cut_one_gpu(slicewire)
    await node.create(pod_object("job", {SLICES: 1}))
    returning = pod_object("whole", {GPU: 1})
    returning["spec"]["restartPolicy"] = "Always"
    await node.create(returning)
    for name in ("job", "whole"):
        await node.until_phase(name, "Running")
    await slicewire.agrees()

    await slicewire.power_off()
    await slicewire.power_on()
    await node.until_phase("whole", "Failed")  # it came before any plugin had registered
    await services["allocator"].start()
    await node.until_counts((1, 1))
    await node.until_counts((7, 0), SLICES)
    await ours.run(node, "at-once")

    for name in ("advertiser", "agent"):
        await services[name].start()
    await node.until_counts((7, 7), SLICES)
    await node.create(pod_object("next", {SLICES: 1}))
    await node.until_phase("next", "Running")
    await slicewire.agrees()


async def _cut_one_gpu(slicewire: Ours) -> None:
    node = slicewire.node
    body = {"metadata": {"name": "mig"}, "data": {"config.yaml": ONE_CUT}}
    await node.api.create(CONFIG_MAPS, body)
    await slicewire.share(MIXED)
    await node.until_counts((2, 2))
    labels = {names.MIG_CONFIG_LABEL: "one-cut"}
    await node.api.patch(paths.node(NAME), {"metadata": {"labels": labels}})

    async def is_cut() -> bool:
        found = await node.api.get(paths.node(NAME))
        return bool(found["metadata"]["labels"].get(names.MIG_STATE_LABEL) == "success")

    await eventually(is_cut, within=node.patience, every=node.every)
    await node.until_counts((1, 1))
    await node.until_counts((7, 7), SLICES)
