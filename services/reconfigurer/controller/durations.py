"""How long changes of nodes take: from the event to what the node shows.

`term` begins one with each new intent and looks whether it has ended with each word of the node.
What has ended is decided by pure functions. A change that a leader inherits is not timed: nobody
has written down when its event came.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from dataclasses import dataclass

from services.reconfigurer.controller import fleet
from services.reconfigurer.controller.outcome import Outcome, State
from shared.contract.messages import ConfigState, Intent, Inventory, Ledger
from shared.runtime import clock
from shared.telemetry import catalogue, meters

SUCCESS, FAILED = "success", "failed"


class Kind(enum.StrEnum):
    """What a change changes."""

    SHARING = "sharing"
    MIG = "mig"


@dataclass(frozen=True, slots=True)
class Pending:
    """A change whose end has not been seen."""

    kind: Kind
    since_ns: int
    wanted: Intent


class Durations:
    """Times the changes of one leader's term."""

    def __init__(
        self,
        view: fleet.Fleet,
        measured: meters.Meters,
        now_ns: Callable[[], int] = clock.now_ns,
    ) -> None:
        self._fleet = view
        self._meters = measured
        self._now_ns = now_ns
        self._pending: dict[str, Pending] = {}

    def begun(self, name: str, former: Intent | None, wanted: Intent, since_ns: int) -> None:
        """Take a new intent, with the one before it and the time of the event behind it."""
        pending = after(self._pending.pop(name, None), former, wanted, since_ns)
        if pending is not None:
            self._pending[name] = pending

    def forget(self, name: str) -> None:
        """Let go of a change that will not be seen to end."""
        self._pending.pop(name, None)

    def look(self, name: str) -> None:
        """See whether a node has come to the end of its change."""
        pending = self._pending.get(name)
        if pending is None:
            return
        end = (
            mig_end(pending.wanted, self._fleet.outcomes.get(name))
            if pending.kind is Kind.MIG
            else sharing_end(
                pending.wanted, self._fleet.inventories.get(name), self._fleet.ledgers.get(name)
            )
        )
        if end:
            del self._pending[name]
            seconds = max(0, self._now_ns() - pending.since_ns) / 1e9
            self._meters.time(
                catalogue.RECONFIGURATION_DURATION, seconds, kind=pending.kind, outcome=end
            )


def after(
    before: Pending | None, former: Intent | None, wanted: Intent, since_ns: int
) -> Pending | None:
    """Say which change is under way once `wanted` has followed `former`; None for none.

    A MIG change goes on under a generation that wants the same layout.
    """
    if before is not None and before.kind is Kind.MIG and _layout(before.wanted) == _layout(wanted):
        return dataclasses.replace(before, wanted=wanted)
    if wanted.mig_config and not wanted.mig_problems and _layout(former) != _layout(wanted):
        return Pending(Kind.MIG, since_ns, wanted)
    served = former.sharing if former is not None else None
    if wanted.state is not ConfigState.REFUSED and wanted.sharing != served:
        return Pending(Kind.SHARING, since_ns, wanted)
    return None


def sharing_end(wanted: Intent, inventory: Inventory | None, ledger: Ledger | None) -> str:
    """How a change of sharing ended; empty while it has not."""
    generation = wanted.stamp.generation
    if inventory and inventory.stamp.generation == generation and inventory.problems:
        return FAILED
    return SUCCESS if ledger and ledger.stamp.generation == generation else ""


def mig_end(wanted: Intent, found: Outcome | None) -> str:
    """How a change of layout ended; empty while it has not."""
    if found is None or found.generation != wanted.stamp.generation:
        return ""
    return {State.SUCCESS: SUCCESS, State.FAILED: FAILED}.get(found.state, "")


def _layout(wanted: Intent | None) -> object:
    return (wanted.mig_config, wanted.mig_rows) if wanted is not None else None
