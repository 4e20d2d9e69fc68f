"""Why the agent has nothing to do, in a sentence. Pure; `change` asks where no layout is wanted.

Sharing is not the agent's: advertiser and allocator apply it without touching the hardware, and
MPS daemons have a service of their own.
"""

from __future__ import annotations

from shared.contract.messages import Intent, Inventory
from shared.domain.sharing import Strategy

NO_INVENTORY = "no inventory has arrived: the advertiser has not said which GPUs there are"


def nothing_to_do(intent: Intent, inventory: Inventory | None) -> str:
    """Say what is served while no MIG layout is wanted."""
    if inventory is None:
        return f"nothing to do: {NO_INVENTORY}"
    return (
        f"nothing to do: {_sharing(intent)} on {len(inventory.gpus)} GPUs changes no hardware,"
        " and no MIG layout is wanted"
    )


def _sharing(intent: Intent) -> str:
    if intent.sharing.strategy is Strategy.NONE:
        return "serving whole devices"
    return f"{intent.sharing.strategy} by {intent.source.config_map}/{intent.source.key}"
