"""What the controller's part of changes leaves in the log: a line a decision, each about its node.

`drain` calls it; whoever follows a change reads what it waited for, what was done, how it ended.
"""

from __future__ import annotations

import logging

from services.reconfigurer.controller import fleet, kube
from services.reconfigurer.controller.attempt import Next
from services.reconfigurer.controller.changes import Change
from services.reconfigurer.controller.evicting import Result
from services.reconfigurer.controller.outcome import Outcome, State
from services.reconfigurer.controller.snapshot import Patch
from shared.runtime import logs
from shared.telemetry import context

log = logging.getLogger(__name__)


class Diary:
    """Writes about the nodes of a fleet."""

    def __init__(self, fleet_: fleet.Fleet) -> None:
        self._fleet = fleet_

    def decided(self, name: str, change: Change, step: Next) -> None:
        """Say what is waited for now, and why an attempt was given up; each once."""
        if step.waits != change.waits:
            change.waits = step.waits
            words = step.waits or "nothing is in the way"
            log.info("change of node %s: %s", name, words, extra=self._about(name))
        failure = step.attempt.failure
        if failure not in (None, change.gave_up):
            told = self._about(name, reason=failure.reason)
            log.warning("change of node %s given up: %s", name, failure.sentence, extra=told)
        change.gave_up = failure

    def patched(self, name: str, patch: Patch) -> None:
        """Say what was written on a node."""
        if patch.words:
            log.info("node %s: %s", name, patch.words, extra=self._about(name))

    def evicted(self, name: str, pod: str, result: Result) -> None:
        """Say what became of an eviction."""
        told = self._about(name, pod=pod)
        log.info("eviction of pod %s from node %s: %s", pod, name, result.value, extra=told)

    def unread(self, name: str, error: kube.KubeError) -> None:
        """Say why a node could not be looked at, or acted on."""
        log.warning("change of node %s: %s; looking again", name, error, extra=self._about(name))

    def became(self, name: str, former: Outcome | None, found: Outcome) -> None:
        """Say where a layout stands; a sentence that only goes on is in the annotation."""
        if former is None or (former.state, former.reason) != (found.state, found.reason):
            level = logging.WARNING if found.state is State.FAILED else logging.INFO
            told = self._about(name, state=found.state.value, reason=found.reason)
            log.log(level, "MIG layout of node %s: %s", name, found.sentence, extra=told)

    def _about(self, name: str, **fields: object) -> dict[str, dict[str, object]]:
        wanted, received = self._fleet.intents.get(name), self._fleet.progress.get(name)
        generation = wanted.stamp.generation if wanted else None
        trace = context.trace_id(received.traceparent) if received else ""
        return logs.about(node=name, **fields, generation=generation, trace=trace)
