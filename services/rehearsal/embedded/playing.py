"""`Embedded`: the embedded cluster as the stage that the engine plays on."""

from __future__ import annotations

from collections.abc import Mapping

from services.rehearsal.embedded import acts, baseline, observe
from services.rehearsal.embedded.cluster import Cluster
from services.rehearsal.stage import Observation
from services.rehearsal.story import Act, Condition


class Embedded:
    """A stage."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._baseline = baseline.take(cluster, observe.SERVICES_AGENT)

    async def act(self, action: Act) -> None:
        """Do it; StageError says why it cannot be done."""
        await acts.act(self._cluster, action)

    async def observe(self, condition: Condition, moments: Mapping[str, int]) -> Observation:
        """Look at what the condition is about."""
        return await observe.observe(self._cluster, self._baseline, condition, moments)

    def mark(self) -> None:
        """Count from here what is counted since the last step that acts."""
        self._baseline = baseline.take(self._cluster, observe.SERVICES_AGENT)
