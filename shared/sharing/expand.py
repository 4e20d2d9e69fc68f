"""Shares and their holders to slots: the one place where slot ids are made.

The allocator lists what comes out to the kubelet, `slicewire plan` shows it. The kubelet counts
devices by id, so an id in use is never renamed and never offered under a second form: a device
offers a new form (another resource, whole or shared, MPS or time-slicing) only as far as the
holders of its old form leave room.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from shared.domain import slots
from shared.domain.sharing import Offer, Share, Strategy

Held = dict[str, dict[str, list[str]]]  # device UUID -> resource -> held slots in order
Forms = Mapping[tuple[str, str], Strategy]  # by resource and slot: how its holder shares the device
AS_OFFERED: Forms = {}


@dataclass(frozen=True, slots=True)
class _Usage:
    """Who stands on a device, from the view of one share of it."""

    own: tuple[str, ...]  # same resource, same form: whole, or shared in the same way
    old: tuple[str, ...]  # anything else on the device itself
    taken: frozenset[str]  # ids in use under the same resource, in whatever form
    blocked: bool  # a holder on the GPU around it, or on a MIG device inside it


def expand(
    shares: tuple[Share, ...],
    holders: Mapping[str, Collection[str]],
    forms: Forms = AS_OFFERED,
) -> tuple[Offer, ...]:
    """Name the slots of every share, given the held slots of each resource.

    `forms` says in which form slots are held; one that it does not name is held as it is offered.
    Offers come in the order of the shares; resources that a device serves no more follow as
    offers without slots, for as long as somebody holds one. Slots of devices that no share names
    are lost and get no offer.
    """
    held = _by_device(holders)
    offers = [_offer(share, held, forms) for share in shares]
    return (*offers, *_leftovers(shares, held))


def _offer(share: Share, held: Held, forms: Forms) -> Offer:
    usage = _usage(share, held, forms)
    listed = _whole(share, usage) if share.replicas == 1 else _replicas(share, usage)
    mine = held.get(share.uuid, {}).get(share.resource, [])
    return Offer(
        uuid=share.uuid,
        gpu_uuid=share.gpu_uuid,
        gpu_index=share.gpu_index,
        resource=share.resource,
        slots=tuple(sorted(listed, key=slots.slot_order)),
        retiring=tuple(slot for slot in mine if slot not in listed),
    )


def _whole(share: Share, usage: _Usage) -> frozenset[str]:
    if usage.own or not (usage.old or usage.blocked):
        return frozenset((share.uuid,))
    return frozenset()


def _replicas(share: Share, usage: _Usage) -> frozenset[str]:
    kept = usage.own[: share.replicas]
    exclusive = any(slots.replica_of(slot) is None for slot in usage.old)
    if exclusive or usage.blocked:
        return frozenset(kept)
    room = max(share.replicas - len(usage.old) - len(usage.own), 0)
    ids = (slots.slot_id(share.uuid, number) for number in itertools.count())
    free = (slot for slot in ids if slot not in usage.taken)
    return frozenset((*kept, *itertools.islice(free, room)))


def _usage(share: Share, held: Held, forms: Forms) -> _Usage:
    on_it = held.get(share.uuid, {})
    own: list[str] = []
    old: list[str] = []
    for resource, taken in on_it.items():
        for slot in taken:
            same = resource == share.resource and _as_offered(share, slot, forms)
            (own if same else old).append(slot)
    return _Usage(
        tuple(own),
        tuple(old),
        frozenset(on_it.get(share.resource, ())),
        any(uuid in held for uuid in _relatives(share)),
    )


def _as_offered(share: Share, slot: str, forms: Forms) -> bool:
    """Whether a slot of the share's own resource is held in the form that the share offers."""
    whole = share.replicas == 1
    if slot != share.uuid if whole else slots.replica_of(slot) is None:
        return False
    return forms.get((share.resource, slot), share.strategy) is share.strategy


def _relatives(share: Share) -> tuple[str, ...]:
    """Return the devices that share silicon with this one."""
    return share.parts if share.uuid == share.gpu_uuid else (share.gpu_uuid,)


def _leftovers(shares: tuple[Share, ...], held: Held) -> Iterator[Offer]:
    """Give what is held under resources that its device serves no more."""
    served = {(share.uuid, share.resource) for share in shares}
    for share in shares:
        for uuid in (share.uuid, *_relatives(share)):
            for resource, taken in held.get(uuid, {}).items():
                if (uuid, resource) in served:
                    continue
                served.add((uuid, resource))
                yield Offer(
                    uuid=uuid,
                    gpu_uuid=share.gpu_uuid,
                    gpu_index=share.gpu_index,
                    resource=resource,
                    slots=(),
                    retiring=tuple(taken),
                )


def _by_device(holders: Mapping[str, Collection[str]]) -> Held:
    held: Held = {}
    for resource in sorted(holders):
        for slot in sorted(set(holders[resource]), key=slots.slot_order):
            held.setdefault(slots.device_of(slot), {}).setdefault(resource, []).append(slot)
    return held
