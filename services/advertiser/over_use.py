"""What pods take of shared devices → who takes more than its slots stand for. Pure.

Time-slicing gives every slot all of the memory: whoever takes more than its share takes it from the
others, and the one who asks last dies. So it is told while the card still has room. MPS keeps
its clients to their shares by itself. `sampling` tells each case once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from shared.contract.facts import Fact, FactKind
from shared.contract.messages import Inventory, Ledger, Stamp
from shared.contract.usage import DeviceUse, Usage
from shared.domain import slots
from shared.domain.sharing import Strategy
from shared.domain.slots import Holder

Pod = tuple[str, str]  # namespace and name
Key = tuple[str, str, str]  # the device, and the pod on it


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """A pod that takes more of a shared device than its slots of it are worth."""

    device: DeviceUse
    namespace: str
    pod: str
    used_mib: int
    share_mib: int
    slots: int

    @property
    def key(self) -> Key:
        """Whether this is the same case as before."""
        return self.device.uuid, self.namespace, self.pod

    @property
    def sentence(self) -> str:
        """What is so, and what to do."""
        free = max(self.device.memory_mib - self.device.used_mib, 0)
        return (
            f"pod {self.namespace}/{self.pod} takes {self.used_mib} MiB of {self.device.uuid}, its"
            f" {self.slots} of the slots there stand for {self.share_mib} MiB, {free} MiB are free:"
            " have it take less or ask for more slots, before others find no memory"
        )


def excesses(usage: Usage, inventory: Inventory, ledger: Ledger) -> tuple[Excess, ...]:
    """List the pods that take more than their shares, in order."""
    replicas = {(each.uuid, each.resource): each.replicas for each in inventory.shares}
    return tuple(
        found
        for device in usage.devices
        for found in _on(device, _shares(device, ledger, replicas))
    )


def fact(excess: Excess, stamp: Stamp, now: int) -> Fact:
    """Tell it, once a case."""
    return Fact(
        stamp=stamp,
        id=f"over_use/{'/'.join(excess.key)}/{now}",
        kind=FactKind.OVER_USE,
        at_ns=now,
        sentence=excess.sentence,
        gpu_uuid=excess.device.gpu_uuid,
        holders=(Holder(excess.namespace, excess.pod, ""),),
    )


def present(usage: Usage) -> set[Key]:
    """All pods on all devices: a case ends with its pod, not with a moment of modesty."""
    return {
        (device.uuid, each.holder.namespace, each.holder.pod)
        for device in usage.devices
        for each in device.pods
    }


def _on(device: DeviceUse, shares: Mapping[Pod, tuple[int, int]]) -> Iterator[Excess]:
    taken: Counter[Pod] = Counter()
    for use in device.pods:
        taken[use.holder.namespace, use.holder.pod] += use.memory_mib or 0
    for (namespace, pod), used_mib in sorted(taken.items()):
        count, share_mib = shares.get((namespace, pod), (0, 0))
        if count and used_mib > share_mib:
            yield Excess(
                device=device,
                namespace=namespace,
                pod=pod,
                used_mib=used_mib,
                share_mib=share_mib,
                slots=count,
            )


def _shares(
    device: DeviceUse, ledger: Ledger, replicas: Mapping[tuple[str, str], int]
) -> dict[Pod, tuple[int, int]]:
    """Count each pod's slots in time slices of a device, and what they are worth in MiB.

    A slot of a resource that the device offers no more is worth nothing that can be computed.
    """
    shares: dict[Pod, tuple[int, int]] = {}
    for row in ledger.rows:
        if slots.device_of(row.slot) != device.uuid or row.holder is None:
            continue
        parts = replicas.get((device.uuid, row.resource), 0)
        if parts > 1 and row.strategy is Strategy.TIME_SLICING:
            pod = (row.holder.namespace, row.holder.pod)
            count, worth = shares.get(pod, (0, 0))
            shares[pod] = (count + 1, worth + device.memory_mib // parts)
    return shares
