"""Inventory, held forms, what runs → which GPUs are to have an MPS daemon, and how. Pure.

`loop` keeps a daemon for each aim and ends every other one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.contract.messages import Inventory
from shared.contract.mps import HeldForms, MpsDaemon
from shared.domain.gpu import Gpu
from shared.domain.sharing import Strategy
from shared.sharing import mps


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """How the daemon of one GPU is to be. `exclusive`: nobody but its clients computes there."""

    gpu: Gpu = field(compare=False)
    replicas: int
    memory_mib: int  # of each client
    exclusive: bool

    @property
    def percentage(self) -> int:
        """How many of a hundred threads each client may use."""
        return mps.thread_percentage(self.replicas)


def aims(
    inventory: Inventory, held: HeldForms | None, running: Mapping[str, MpsDaemon]
) -> dict[str, Aim]:
    """Say by GPU UUID what is to run; a GPU whose daemon may end, or never was, is not there.

    A daemon that is wanted no more goes on until the allocator says, for this very inventory, that
    nobody holds a slot as its client.
    """
    shared = {
        share.gpu_uuid: share.replicas
        for share in inventory.shares
        if share.strategy is Strategy.MPS and share.gpu_uuid not in inventory.recut
    }
    known = held is not None and held.generation == inventory.stamp.generation
    found: dict[str, Aim] = {}
    for gpu in inventory.gpus:
        before, forms = running.get(gpu.uuid), _forms(held, gpu.uuid)
        if gpu.uuid in shared:
            alone = forms <= {Strategy.MPS} if known else before is not None and before.exclusive
            found[gpu.uuid] = _aim(gpu, shared[gpu.uuid], exclusive=alone)
        elif before is not None and not (known and Strategy.MPS not in forms):
            found[gpu.uuid] = _aim(gpu, before.replicas, exclusive=False)
    return found


def leftovers(
    inventory: Inventory, wanted: Mapping[str, Aim], former: Mapping[str, MpsDaemon]
) -> tuple[Aim, ...]:
    """What a process before this one has left behind on GPUs that need no daemon now."""
    return tuple(
        _aim(gpu, former[gpu.uuid].replicas, exclusive=False)
        for gpu in inventory.gpus
        if gpu.uuid in former and gpu.uuid not in wanted
    )


def _aim(gpu: Gpu, replicas: int, *, exclusive: bool) -> Aim:
    return Aim(
        gpu=gpu,
        replicas=replicas,
        memory_mib=mps.memory_mib(gpu, replicas),
        exclusive=exclusive,
    )


def _forms(held: HeldForms | None, gpu_uuid: str) -> frozenset[Strategy]:
    forms = held.forms if held else ()
    return frozenset(form.strategy for form in forms if form.gpu_uuid == gpu_uuid)
