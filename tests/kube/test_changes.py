"""A MIG change on a real cluster: its Eviction API, its budgets, its cordons."""

from __future__ import annotations

import asyncio
from typing import Any

from shared.contract import names
from shared.simulation.kube import paths
from tests.kube import images
from tests.kube.ours import Ours
from tests.kube.real_kubelet import RealNode
from tests.support.eventually import eventually
from tests.support.node_view import GPU, NAME

MIXED = """\
version: v1
flags:
  migStrategy: mixed
"""
KEPT = f"""\
apiVersion: apps/v1
kind: ReplicaSet
metadata: {{name: kept}}
spec:
  selector: {{matchLabels: {{app: kept}}}}
  template:
    metadata: {{labels: {{app: kept}}}}
    spec:
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
SLICES = "nvidia.com/mig-1g.10gb"


async def test_a_budget_delays_a_mig_change_and_its_end_lets_it_go_on(slicewire: Ours) -> None:
    """Nobody is disturbed against a budget; then only the pod in the way is evicted."""
    node = slicewire.node
    await slicewire.share(MIXED)
    await node.until_counts((2, 2))
    await slicewire.agrees()
    await _kubectl(node, "apply", "--filename", "-", given=KEPT)
    await eventually(lambda: _phases(node, ["Running"]), within=node.patience)
    (before,) = await node.names()
    try:
        await _label(node, "all-1g.10gb")
        await eventually(lambda: _has_state(node, "pending"), within=node.patience)
        await eventually(lambda: _tells_of(node, before), within=node.patience)
        assert await node.phase(before) == "Running"
        await slicewire.agrees()  # what is withheld is unhealthy for both
        await _kubectl(node, "delete", "poddisruptionbudget", "kept")
        await node.until_gone(before)
        await eventually(lambda: _has_state(node, "success"), within=node.patience)
        await node.until_counts((14, 14), SLICES)
        await slicewire.agrees()
        assert not (await _node(node))["spec"].get("unschedulable")
    finally:
        await _kubectl(node, "delete", "replicaset,poddisruptionbudget", "--all")


async def _kubectl(node: RealNode, *words: str, given: str | None = None) -> str:
    return await asyncio.to_thread(node.cluster.kubectl, *words, given=given)


async def _node(node: RealNode) -> dict[str, Any]:
    return await node.api.get(paths.node(NAME))


async def _label(node: RealNode, layout: str) -> None:
    await node.api.patch(
        paths.node(NAME), {"metadata": {"labels": {names.MIG_CONFIG_LABEL: layout}}}
    )


async def _has_state(node: RealNode, state: str) -> bool:
    labels = (await _node(node))["metadata"]["labels"]
    return bool(labels.get(names.MIG_STATE_LABEL) == state)


async def _phases(node: RealNode, wanted: list[str]) -> bool:
    return [await node.phase(name) for name in await node.names()] == wanted


async def _tells_of(node: RealNode, pod: str) -> bool:
    """Whether the node says why it is pending, and names the pod in the way."""
    annotations = (await _node(node))["metadata"]["annotations"]
    return pod in annotations.get(names.MIG_REASON_ANNOTATION, "")
