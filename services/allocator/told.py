"""What became of grants → sentences for people, one for each resource and holder. Pure.

`ledger` makes them, `keeper` stamps them and publishes them as facts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from services.allocator.grants import Grant
from shared.contract.facts import FactKind
from shared.domain import slots as slot_ids
from shared.domain.slots import Holder


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Something worth a fact on the bus."""

    kind: FactKind
    at_ns: int
    sentence: str
    resource: str
    slots: tuple[str, ...] = ()
    holders: tuple[Holder, ...] = ()


def handed_out(resource: str, slots: Iterable[str], at_ns: int) -> Told:
    """The kubelet was answered; whose container it is comes with a later List."""
    ordered = _ordered(slots)
    return Told(
        kind=FactKind.GRANTED,
        at_ns=at_ns,
        sentence=f"{_count(ordered)} of {resource} handed out; the pod is not known yet",
        resource=resource,
        slots=ordered,
    )


def taken(grants: Iterable[Grant], at_ns: int) -> tuple[Told, ...]:
    """Containers that came to be known as holders."""
    return tuple(
        Told(
            kind=FactKind.GRANTED,
            at_ns=at_ns,
            sentence=f"{_person(holder)} holds {_count(slots)} of {resource}",
            resource=resource,
            slots=slots,
            holders=(holder,),
        )
        for resource, holder, slots in _groups(grants)
        if holder is not None
    )


def released(grants: Iterable[Grant], at_ns: int, why: str) -> tuple[Told, ...]:
    """Slots that nobody has any more; `why` ends the sentence."""
    return tuple(
        Told(
            kind=FactKind.RELEASED,
            at_ns=at_ns,
            sentence=f"{_count(slots)} of {resource} released by "
            f"{_person(holder) if holder else 'a container that never appeared'}: {why}",
            resource=resource,
            slots=slots,
            holders=(holder,) if holder else (),
        )
        for resource, holder, slots in _groups(grants)
    )


def conflict(grant: Grant, at_ns: int) -> Told:
    """One List named several pods for one slot, and no Allocate tells which of them ended."""
    people = " and ".join(_person(holder) for holder in grant.rivals)
    return Told(
        kind=FactKind.CONFLICT,
        at_ns=at_ns,
        sentence=f"the kubelet names {people} for slot {grant.slot} of {grant.resource} at once;"
        " delete the pods that have finished, or restart the kubelet if both run",
        resource=grant.resource,
        slots=(grant.slot,),
        holders=grant.rivals,
    )


def _groups(grants: Iterable[Grant]) -> Iterable[tuple[str, Holder | None, tuple[str, ...]]]:
    groups: dict[tuple[str, Holder | None], list[str]] = {}
    for grant in grants:
        groups.setdefault((grant.resource, grant.holder), []).append(grant.slot)
    return tuple(
        (resource, holder, _ordered(slots)) for (resource, holder), slots in groups.items()
    )


def _ordered(slots: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(slots, key=slot_ids.slot_order))


def _person(holder: Holder) -> str:
    return f"{holder.pod_key} (container {holder.container})"


def _count(slots: tuple[str, ...]) -> str:
    return "1 slot" if len(slots) == 1 else f"{len(slots)} slots"
