"""Intents and inventories that come in → `progress` on the bus. `app` composes it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from services.reconfigurer.agent import progress
from shared.bus.state import Received
from shared.contract.messages import Intent, Inventory, Progress, Stamp
from shared.telemetry import spans


class Loop:
    """Follows one node and says where its part of a change stands, once for each answer."""

    def __init__(
        self, stamp: Stamp, publish: Callable[[Progress, str], None], telemetry: spans.Telemetry
    ) -> None:
        self._stamp = stamp
        self._publish = publish
        self._telemetry = telemetry
        self._intent: Received[Intent] | None = None
        self._inventory: Inventory | None = None
        self._said: Progress | None = None

    def on_intent(self, received: Received[Intent]) -> None:
        """Take the newest intent."""
        self._intent = received
        self.say()

    def on_inventory(self, received: Received[Inventory]) -> None:
        """Take the newest inventory."""
        self._inventory = received.value
        self.say()

    def say(self) -> None:
        """Publish where the node stands, unless that has been said."""
        intent = self._intent.value if self._intent else None
        found = progress.standing(intent, self._inventory)
        generation = intent.stamp.generation if intent else self._stamp.generation
        answer = Progress(
            stamp=dataclasses.replace(self._stamp, generation=generation),
            phase=found.phase,
            sentence=found.sentence,
        )
        if answer == self._said:
            return
        self._said = answer
        step = self._telemetry.begin(
            "publish progress", self._intent.traceparent if self._intent else ""
        )
        self._publish(answer, step.traceparent)
        self._telemetry.end(step, attributes={"phase": found.phase})
