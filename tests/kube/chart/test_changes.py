"""MIG changes of one node of two, cordons, and a controller that is killed meanwhile."""

from __future__ import annotations

from typing import Any

from shared.contract import names
from shared.simulation.kube import paths
from tests.kube import images, ours
from tests.kube.chart.release import NAMESPACE, PATIENCE_S, SLOTS, Release
from tests.kube.real_kubelet import RealNode
from tests.support.eventually import eventually
from tests.support.node_view import GPU
from tests.support.one_node import pod_object

LAYOUT = "all-1g.10gb"
CUT = (14, 14)  # seven instances of each of two GPUs, unshared
MIXED = "version: v1\nflags: {migStrategy: mixed}\n"
SLICES = "nvidia.com/mig-1g.10gb"

KEPT = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: kept, labels: {{app: kept}}}}
spec:
  nodeName: gpu-b
  terminationGracePeriodSeconds: 1
  containers:
    - name: c0
      image: {images.PAUSE}
      resources: {{limits: {{{GPU}: 1}}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: kept}}
spec: {{minAvailable: 1, selector: {{matchLabels: {{app: kept}}}}}}
"""


async def test_u071_a_node_that_an_administrator_cordoned_stays_cordoned(release: Release) -> None:
    """U071: the change is made all the same, and takes no cordon away that is not its own."""
    _, node = release.nodes
    await release.share(MIXED)
    await release.until_counts((2, 2), (2, 2))
    await release.kubectl("cordon", node.name)
    await release.cut(node, LAYOUT)
    await release.until_cut(node)
    await node.until_counts(CUT, SLICES)
    assert await _unschedulable(release, node)
    await release.agrees()
    await release.kubectl("uncordon", node.name)
    await release.make_whole(node)
    await release.until_counts((2, 2), (2, 2))


async def test_u069_only_the_pod_whose_gpu_is_cut_has_to_go_and_not_against_its_budget(
    release: Release,
) -> None:
    """U069: nobody of the other node, nor one without a GPU; the cordon was ours and ends."""
    other, node = release.nodes
    await release.share(MIXED)
    await release.until_counts((2, 2), (2, 2))
    await release.apply(KEPT)
    await node.create(pod_object("elsewhere", {GPU: 1}, node=other.name))
    await node.create(pod_object("plain", {}, node=node.name))
    for name in ("kept", "elsewhere", "plain"):
        await node.until_phase(name, "Running")
    await release.cut(node, LAYOUT)
    await release.until_cut(node, "pending")
    await eventually(lambda: _tells_of(release, node, "default/kept"), within=PATIENCE_S)
    assert await node.phase("kept") == "Running"
    # held for status, no offer for the kubelet: what is withheld counts in both ways
    await release.until_counts((2, 2), (2, 0), agreed=False)

    await release.kubectl("delete", "poddisruptionbudget", "kept", namespace="default")
    await node.until_gone("kept")
    await release.until_cut(node)
    await node.until_counts(CUT, SLICES)
    assert not await _unschedulable(release, node)
    assert await ours.restarts(node, "elsewhere", "plain") == [0, 0]
    await release.until_counts((2, 2), (0, 0))
    await release.make_whole(node)
    await release.until_counts((2, 2), (2, 2))


async def test_a_change_is_finished_by_the_controllers_successor(release: Release) -> None:
    """The leader is killed in the middle; whoever leads then brings it to its end."""
    _, node = release.nodes
    await release.share(MIXED)
    await release.until_counts((2, 2), (2, 2))
    leader = await eventually(release.leader, within=PATIENCE_S)
    pods = await release.pods("controller")
    (pod,) = [name for name in pods if leader.startswith(name)]
    place = next(each for each in release.nodes if each.name == pods[pod]["spec"]["nodeName"])
    await release.cut(node, LAYOUT)
    await release.until_cut(node, "pending")
    await place.kubelet.crash(f"{NAMESPACE}/{pod}")

    async def another_leads() -> bool:
        return await release.leader() not in ("", leader)

    await eventually(another_leads, within=PATIENCE_S)
    await release.until_cut(node)
    await node.until_counts(CUT, SLICES)
    await release.agrees()
    await release.make_whole(node)
    await release.until_counts((2, 2), (2, 2))
    await release.share(ours.text(4))
    await release.until_counts(SLOTS, SLOTS)


async def _unschedulable(release: Release, node: RealNode) -> bool:
    spec: dict[str, Any] = (await release.api.get(paths.node(node.name)))["spec"]
    return bool(spec.get("unschedulable"))


async def _tells_of(release: Release, node: RealNode, pod: str) -> bool:
    """Whether the node says why it is pending, and names the pod in the way."""
    annotations = (await release.api.get(paths.node(node.name)))["metadata"]["annotations"]
    return pod in annotations.get(names.MIG_REASON_ANNOTATION, "")
