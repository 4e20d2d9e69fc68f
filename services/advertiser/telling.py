"""An inventory that was published → lines in the log, facts on the bus, counts. `loop` calls it.

What is worth a fact is said by `inventory` and `mps`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from services.advertiser import inventory, mps
from shared.contract.facts import Fact
from shared.contract.messages import Inventory
from shared.runtime import clock, logs
from shared.telemetry import catalogue, meters, spans

log = logging.getLogger(__name__)


class Teller:
    """Tells what differs between two inventories; `publish` appends a fact."""

    def __init__(self, publish: Callable[[Fact, str], None], measured: meters.Meters) -> None:
        self._publish = publish
        self._meters = measured

    def tell(self, before: Inventory | None, after: Inventory, step: spans.Step) -> None:
        """Tell of an inventory by the step that published it."""
        now = clock.now_ns()
        told = logs.about(generation=after.stamp.generation, trace=step.trace_id)
        log.info("inventory: %s", inventory.words(after), extra=told)
        changed = inventory.health_changes(before, after)
        facts = inventory.health_facts(before, after, now)
        for (_, uuid, verdict), fact in zip(changed, facts, strict=True):
            self._meters.count(catalogue.GPU_HEALTH_CHANGES, uuid=uuid, state=verdict.state)
            self._fact(fact, step, bad=not verdict.usable)
        daemons = mps.changes(before, after)
        for daemon, fact in zip(daemons, mps.facts(before, after, now), strict=True):
            self._fact(fact, step, bad=not daemon.ready)
        for problem in after.problems:
            log.warning("refused: %s", problem.sentence(), extra=told)

    def _fact(self, fact: Fact, step: spans.Step, *, bad: bool) -> None:
        about = logs.about(gpu=fact.gpu_uuid, trace=step.trace_id)
        log.log(logging.WARNING if bad else logging.INFO, "%s", fact.sentence, extra=about)
        self._publish(fact, step.traceparent)
