"""What is known of one node, and what follows from it for one resource."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from shared.contract.messages import Intent, Inventory, Ledger, LedgerRow, Phase, Progress
from shared.contract.mps import MpsDaemon
from shared.contract.waiting import NodeFact
from shared.domain.gpu import Gpu
from shared.domain.sharing import GPU_RESOURCE, MigStrategy, Share
from shared.domain.slots import SlotState
from shared.geometry import builtin, profiles
from shared.geometry.board import Board
from shared.geometry.config import Wanted
from shared.sharing import names

CHANGING = frozenset({Phase.PREPARE, Phase.HOLDING, Phase.APPLYING, Phase.REBOOTING})
TAKEN = frozenset({SlotState.HELD, SlotState.GRANTED, SlotState.RETIRING})
MIG = names.mig_resource("")  # how the resources of MIG profiles begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """Slots of one resource on one node; `sick` and `withheld` are those that are unhealthy."""

    free: int = 0
    taken: int = 0
    retiring: int = 0  # of those taken: nobody gets them afterwards
    sick: int = 0
    withheld: int = 0
    lost: int = 0

    @property
    def total(self) -> int:
        """All that a device of the node still has."""
        return self.free + self.taken + self.sick + self.withheld

    @property
    def capacity(self) -> int:
        """How many pods could have at a time."""
        return self.total - self.retiring


NO_SLOTS = Slots()


@dataclass(frozen=True, kw_only=True)
class NodeView:
    """The newest messages about one node, None for what nobody has said.

    What follows from them is found once: many kinds of pods ask the same nodes.
    """

    name: str
    intent: Intent | None = None
    inventory: Inventory | None = None
    ledger: Ledger | None = None
    progress: Progress | None = None
    fact: NodeFact | None = None

    @property
    def changing(self) -> bool:
        """Whether its MIG layout is being changed, or the kubelet has yet to report the new one."""
        phase = self.progress.phase if self.progress else Phase.IDLE
        return phase in CHANGING or (self.fact is not None and self.fact.changing)

    @property
    def lags(self) -> bool:
        """Whether its services have yet to answer the newest intent."""
        if self.intent is None or self.inventory is None:
            return False
        wanted = self.intent.stamp.generation
        answered = {self.inventory.stamp.generation}
        if self.ledger is not None:
            answered.add(self.ledger.stamp.generation)
        return answered != {wanted}

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """Its GPUs."""
        return self.inventory.gpus if self.inventory else ()

    @property
    def shares(self) -> tuple[Share, ...]:
        """What its devices are to offer."""
        return self.inventory.shares if self.inventory else ()

    @property
    def daemons(self) -> tuple[MpsDaemon, ...]:
        """The MPS daemons of its GPUs."""
        return self.inventory.mps if self.inventory else ()

    @functools.cached_property
    def rows(self) -> tuple[LedgerRow, ...]:
        """Slots that somebody has."""
        rows = self.ledger.rows if self.ledger else ()
        return tuple(row for row in rows if row.state in TAKEN)

    @functools.cached_property
    def holders(self) -> Mapping[str, frozenset[str]]:
        """Pods that have slots, by resource; one that is not known yet is named empty."""
        found: dict[str, set[str]] = {}
        for row in self.rows:
            pod = row.holder.pod_key if row.holder else ""
            found.setdefault(row.resource, set()).add(pod)
        return {resource: frozenset(pods) for resource, pods in found.items()}

    @functools.cached_property
    def served(self) -> frozenset[str]:
        """Names of all resources that it offers."""
        offered = {share.resource for share in self.shares if share.replicas}
        return frozenset(offered | {name for name, slots in self._slots.items() if slots.total})

    def slots(self, resource: str) -> Slots:
        """Count its slots of a resource."""
        return self._slots.get(resource, NO_SLOTS)

    @functools.cached_property
    def _slots(self) -> Mapping[str, Slots]:
        sick = {gpu.uuid for gpu in self.gpus if not gpu.health.usable}
        found: dict[str, Counter[str]] = {}
        for each in self.ledger.counts if self.ledger else ():
            counts, tally = each.counts, found.setdefault(each.resource, Counter())
            withheld = self.changing and each.gpu_uuid not in sick
            tally["withheld" if withheld else "sick"] += counts.unhealthy
            tally["free"] += counts.free
            tally["taken"] += counts.held + counts.granted + counts.retiring
            tally["retiring"] += counts.retiring
            tally["lost"] += counts.lost
        return {resource: Slots(**tally) for resource, tally in found.items()}

    def offers(self, resource: str) -> Iterator[Share]:
        """Devices that are to offer a resource."""
        return (share for share in self.shares if share.resource == resource and share.replicas)

    def will_have(self, resource: str) -> bool:
        """Whether the layout that is being made has more devices of a resource than there are."""
        there = sum(share.gpu_uuid in self._layout for share in self.offers(resource))
        return self.changing and self._comes(resource) > there

    def will_lack(self, resource: str) -> bool:
        """Whether the layout that is being made has no device of a resource that is there now."""
        there = [share.gpu_uuid in self._layout for share in self.offers(resource)]
        return self.changing and bool(there) and all(there) and not self._comes(resource)

    def _comes(self, resource: str) -> int:
        """How many devices of a resource the layout makes."""
        entries = self.intent.sharing.resources if self.intent else ()
        renamed = (each.name for each in entries if each.rename == resource)
        name = next(renamed, resource.removesuffix(names.SHARED_SUFFIX))
        return sum(made[name] for made in self._layout.values())

    @functools.cached_property
    def _layout(self) -> Mapping[str, Counter[str]]:
        """Devices that the layout makes of each GPU, by resource before it is renamed."""
        found = {gpu.uuid: self._wanted(gpu) for gpu in self.gpus}
        return {uuid: self._made_of(wanted) for uuid, wanted in found.items() if wanted}

    def _wanted(self, gpu: Gpu) -> Wanted | None:
        """What the layout makes of a GPU, None where it leaves it as it is."""
        if self.intent is None:
            return None
        rows = [row for row in self.intent.mig_rows if row.matches(gpu.index, gpu.pci_device)]
        if not self.intent.mig_rows:
            return builtin.wanted(self.intent.mig_config, self.boards.get(gpu.uuid))
        if not rows:
            return None
        counts = tuple((share.profile, share.count) for share in rows[-1].shares)
        return Wanted(enabled=rows[-1].enabled, counts=counts)

    def _made_of(self, wanted: Wanted) -> Counter[str]:
        """Devices of one GPU by the MIG strategy of the text."""
        strategy = self.intent.sharing.mig_strategy if self.intent else MigStrategy.NONE
        if not wanted.enabled or strategy is MigStrategy.NONE:
            return Counter({GPU_RESOURCE: 1})
        made: Counter[str] = Counter()
        for profile, count in wanted.counts:
            cut = names.mig_resource(profiles.gpu_instance(profile))
            made[cut if strategy is MigStrategy.MIXED else GPU_RESOURCE] += count
        return made

    @functools.cached_property
    def boards(self) -> dict[str, Board]:
        """What its GPUs can be cut into, by UUID."""
        told = self.progress.boards if self.progress else ()
        return {uuid: each.board for each in told for uuid in each.gpus}


def profile_of(resource: str) -> str:
    """The MIG profile behind a resource's name, empty for any other resource."""
    name = resource.removesuffix(names.SHARED_SUFFIX)
    return profiles.spelling(name) if name.startswith(MIG) else ""
