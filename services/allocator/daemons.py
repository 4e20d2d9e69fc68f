"""The MPS daemons of an inventory → why slots of a GPU are withheld. Pure; `standing` calls it."""

from __future__ import annotations

from collections.abc import Mapping

from shared.contract import mps
from shared.contract.messages import Inventory
from shared.contract.mps import MpsDaemon
from shared.domain.sharing import Strategy

Daemons = Mapping[str, MpsDaemon]  # by GPU UUID
NOT_SEEN = "MPS daemon down: nothing is known of it yet"
EXCLUSIVE = (
    "the GPU is still in compute mode EXCLUSIVE_PROCESS, for clients of its MPS daemon alone; the"
    " MPS service ends that"
)


def by_gpu(inventory: Inventory | None) -> Daemons:
    """The daemons that the advertiser tells of."""
    return {daemon.gpu_uuid: daemon for daemon in inventory.mps} if inventory else {}


def trouble(daemons: Daemons, gpu_uuid: str, form: Strategy) -> str:
    """Say why a slot of this form is not handed out on a GPU; empty if it may be."""
    daemon = daemons.get(gpu_uuid)
    if not mps.closed(daemon, form):
        return ""
    if form is not Strategy.MPS:
        return EXCLUSIVE
    return NOT_SEEN if daemon is None else f"MPS daemon {daemon.state.value}: {daemon.reason}"
