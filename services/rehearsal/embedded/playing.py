"""`Embedded`: the embedded cluster as the stage that the engine plays on."""

from __future__ import annotations

from collections.abc import Mapping

from services.rehearsal.embedded import acts, baseline, instances, observe
from services.rehearsal.embedded.cluster import Cluster
from services.rehearsal.stage import Observation
from services.rehearsal.story import About, Act, Condition


class Embedded:
    """A stage."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._baseline = baseline.take(cluster)
        self._remembered: instances.Instances = {}

    async def act(self, action: Act) -> None:
        """Do it; StageError says why it cannot be done."""
        await acts.act(self._cluster, action)

    async def observe(self, condition: Condition, moments: Mapping[str, int]) -> Observation:
        """Look at what the condition is about."""
        seen = await observe.observe(self._cluster, self._baseline, condition, moments)
        if condition.about is not About.NODE or not condition.keys & instances.KEYS:
            return seen
        node = self._cluster.nodes[condition.name]
        cut = await instances.observe(node, self._remembered.get(condition.name, {}))
        return Observation({**seen.values, **cut}, seen.shown)

    def mark(self) -> None:
        """Count from here what is counted since the last step that acts."""
        self._baseline = baseline.take(self._cluster)

    async def remember(self) -> None:
        """Compare from here on with the MIG instances that there are now."""
        self._remembered = {
            name: await instances.of_node(node) for name, node in self._cluster.nodes.items()
        }
