"""What is wanted of a node and what it shows → how the agent's part of the change stands. Pure.

Sharing is not the agent's: advertiser and allocator apply it without touching the hardware. Its
part are MIG geometry and MPS, which this version does not change; it says so where they are wanted.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.contract.messages import Intent, Inventory, Phase
from shared.domain.sharing import Strategy

NO_INTENT = "no intent has arrived: the controller has not said what this node shall be"
NO_INVENTORY = "no inventory has arrived: the advertiser has not said which GPUs there are"


@dataclass(frozen=True, slots=True)
class Standing:
    """Phase and sentence of a Progress."""

    phase: Phase
    sentence: str


def standing(intent: Intent | None, inventory: Inventory | None) -> Standing:
    """Say where the newest intent stands on this node, as far as it is the agent's."""
    if intent is None:
        return Standing(Phase.IDLE, f"nothing to do: {NO_INTENT}")
    if intent.mig_config:
        return Standing(
            Phase.IDLE,
            f"MIG layout {intent.mig_config} is wanted and left alone: this version of slicewire"
            " does not change MIG geometry, the GPUs stay as they are",
        )
    if intent.sharing.strategy is Strategy.MPS:
        return Standing(
            Phase.IDLE,
            "MPS is wanted and no MPS daemon is started: this version of slicewire does not"
            " supervise MPS, run the daemon yourself or use time-slicing",
        )
    if inventory is None:
        return Standing(Phase.IDLE, f"nothing to do: {NO_INVENTORY}")
    return Standing(
        Phase.IDLE,
        f"nothing to do: {_sharing(intent)} on {len(inventory.gpus)} GPUs changes no hardware,"
        " and no MIG layout is wanted",
    )


def _sharing(intent: Intent) -> str:
    if intent.sharing.strategy is Strategy.NONE:
        return "serving whole devices"
    return f"{intent.sharing.strategy} by {intent.source.config_map}/{intent.source.key}"
