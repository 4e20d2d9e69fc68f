"""The ledger as a state machine: (state, event) → state and facts. Pure; `keeper` calls it.

Events are an Allocate call (`allocated`), one pod-resources List (`listed`), a look at the
hardware (`devices`) and the agent's order to withhold slots (`withheld`). What each slot counts
as follows from the state alone: `standing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from services.allocator import forms, told
from services.allocator.grants import Grant, Key, Listed
from services.allocator.told import Told
from services.allocator.withholding import Withheld
from shared.contract.messages import Hold, Inventory
from shared.domain import slots as slot_ids
from shared.domain.slots import Holder

EXPIRY_NS = 10_000_000_000  # two Lists this far apart that do not show a grant end it
RELEASE_NS = 1_500_000_000  # the same for a known holder: a kubelet that has just started may
# answer before it knows its pods

Ended = Mapping[tuple[Key, Holder], int]  # when List first failed to name them, 0 while it does


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """All that the ledger remembers.

    `ended` are holders that an Allocate of their slot proved finished, or of which a hold says so,
    for as long as List goes on naming them (before Kubernetes 1.34 it does) and a little longer.
    `inventory` is None until one is known; `confirmed` is False while it may be from another boot.
    `listed_ns` is when the newest List taken in was asked for.
    """

    grants: Mapping[Key, Grant] = field(default_factory=dict)
    ended: Ended = field(default_factory=dict)
    inventory: Inventory | None = None
    confirmed: bool = True
    hold: Hold | None = None
    listed_ns: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """What an event made of a state."""

    state: State
    facts: tuple[Told, ...] = ()


def allocated(
    state: State, resource: str, slots: Iterable[str], now_ns: int, trace: str = ""
) -> Change:
    """Take in that the kubelet gave these slots to a container that it does not name.

    The kubelet does so only with slots that it counts as free, so whoever had one has ended.
    """
    new = {
        (resource, slot): _as_offered(
            Grant(resource=resource, slot=slot, at_ns=now_ns, trace=trace), state
        )
        for slot in slots
    }
    old = [state.grants[key] for key in new if key in state.grants]
    gone = {(grant.key, holder): 0 for grant in old for holder in grant.names}
    facts = (
        *told.released(old, now_ns, "the kubelet has given the slots away again"),
        told.handed_out(resource, (slot for _, slot in new), now_ns),
    )
    grants = {**state.grants, **new}
    return Change(replace(state, grants=grants, ended={**state.ended, **gone}), facts)


def listed(state: State, rows: Iterable[Listed], asked_ns: int) -> Change:
    """Take in one List that was asked for at `asked_ns`; an older one than the last says nothing.

    A grant that is younger than the question is left alone: the answer may not show it yet.
    """
    if asked_ns <= state.listed_ns:
        return Change(state)
    named = _by_slot(rows)
    ended = _still_ended(state.ended, named, asked_ns)
    after = {
        key: grant if key in state.grants else _as_offered(grant, state)
        for key in {**state.grants, **named}
        if (grant := _after_list(key, state.grants.get(key), named.get(key, ()), ended, asked_ns))
    }
    back = {(key, grant.holder) for key, grant in after.items()}
    ended = {known: missed_ns for known, missed_ns in ended.items() if known not in back}
    new = replace(state, grants=after, ended=ended, listed_ns=asked_ns)
    return Change(new, _differences(state.grants, after, asked_ns))


def devices(state: State, inventory: Inventory, *, confirmed: bool) -> Change:
    """Take in what the hardware is and what each device is to offer."""
    return Change(replace(state, inventory=inventory, confirmed=confirmed))


def withheld(state: State, hold: Hold, now_ns: int) -> Change:
    """Take in which slots the agent wants withheld; a hold without slots ends it.

    It may tell of pods that have ended. Nobody new gets such a slot while the hold stands, so a
    pod of that name that comes later is none of its holders.
    """
    held = Withheld.by(hold)
    gpus = state.inventory.gpus if state.inventory else ()
    of = {part.uuid: gpu.uuid for gpu in gpus for part in gpu.mig_devices}

    def is_withheld(slot: str) -> bool:
        device = slot_ids.device_of(slot)
        return held.covers(slot, device, of.get(device, device))

    ended = {
        (key, holder): 0
        for key, grant in state.grants.items()
        if is_withheld(grant.slot)
        for holder in grant.names
        if holder.pod_key in hold.ended
    }
    gone = {
        key: grant
        for key, grant in state.grants.items()
        if grant.names and all((key, holder) in ended for holder in grant.names)
    }
    left = {key: grant for key, grant in state.grants.items() if key not in gone}
    new = replace(state, hold=hold, grants=left, ended={**state.ended, **ended})
    return Change(new, told.released(gone.values(), now_ns, "it has ended"))


def restored(state: State, now_ns: int) -> State:
    """Make a state read from disk fit for this process, whose clock may stand elsewhere.

    Lists are counted anew, and grants that nobody came for get their full time again.
    """
    grants = {
        key: replace(grant, at_ns=min(grant.at_ns, now_ns - 1), missed_ns=0)
        for key, grant in state.grants.items()
    }
    return replace(state, grants=grants, ended=dict.fromkeys(state.ended, 0), listed_ns=0)


def rebuilt(before: State, after: State) -> dict[str, int]:
    """Count what the first List made of remembered grants: recovered, dropped, unknown before."""
    shown = {key for key, grant in after.grants.items() if grant.names and not grant.missed_ns}
    return {
        "recovered": len(shown & before.grants.keys()),
        "dropped": len(before.grants.keys() - shown),
        "unknown": len(shown - before.grants.keys()),
    }


def doubtful(state: State) -> bool:
    """Whether a holder was missing from the last List, so that another should follow soon."""
    return any(grant.missed_ns and not grant.unresolved for grant in state.grants.values())


def _as_offered(grant: Grant, state: State) -> Grant:
    """A grant that begins now, in the form in which its device is offered now."""
    shares = state.inventory.shares if state.inventory else ()
    return replace(grant, strategy=forms.as_offered(grant, shares))


def _by_slot(rows: Iterable[Listed]) -> dict[Key, tuple[Holder, ...]]:
    """Who is named for each slot, sorted; List spreads one container over many entries."""
    named: dict[Key, set[Holder]] = {}
    for row in rows:
        for slot in row.slots:
            named.setdefault((row.resource, slot), set()).add(row.holder)
    return {key: tuple(sorted(named[key])) for key in sorted(named)}


def _still_ended(ended: Ended, named: Mapping[Key, tuple[Holder, ...]], asked_ns: int) -> Ended:
    """Forget who has not been named for long; one blank answer of a kubelet means nothing."""
    missed = {
        (key, who): 0 if who in named.get(key, ()) else missed_ns or asked_ns
        for (key, who), missed_ns in ended.items()
    }
    return {
        known: at_ns for known, at_ns in missed.items() if not at_ns or asked_ns - at_ns < EXPIRY_NS
    }


def _after_list(
    key: Key, before: Grant | None, named: tuple[Holder, ...], ended: Ended, asked_ns: int
) -> Grant | None:
    """What is left of one slot's grant after a List that names `named` for it."""
    if before is not None and before.at_ns >= asked_ns:
        return before
    fresh = tuple(holder for holder in named if (key, holder) not in ended)
    if fresh:
        return _resolved(before or Grant(resource=key[0], slot=key[1], at_ns=asked_ns), fresh)
    if before is None:
        return None
    if before.missed_ns == 0:
        return replace(before, missed_ns=asked_ns)
    if asked_ns - before.missed_ns < (EXPIRY_NS if before.unresolved else RELEASE_NS):
        return before
    # Whom List goes on naming alone has come back under its former name (a StatefulSet's pod).
    return _resolved(before, named) if named and before.unresolved else None


def _resolved(grant: Grant, named: tuple[Holder, ...]) -> Grant:
    """Name the holder where List leaves no choice; containers of one pod are no rivals."""
    known = grant.holder if grant.holder in named else None
    if len({holder.pod_key for holder in named}) > 1:
        return replace(grant, holder=known, rivals=named, missed_ns=0)
    return replace(grant, holder=known or named[0], rivals=(), missed_ns=0)


def _differences(
    before: Mapping[Key, Grant], after: Mapping[Key, Grant], at_ns: int
) -> tuple[Told, ...]:
    gone = [grant for key, grant in before.items() if _left(grant, after.get(key))]
    new = [
        grant
        for key, grant in after.items()
        if grant.names and (key not in before or before[key].names != grant.names)
    ]
    return (
        *told.released(gone, at_ns, "the kubelet does not list them any more"),
        *told.taken((grant for grant in new if not grant.rivals), at_ns),
        *(told.conflict(grant, at_ns) for grant in new if grant.rivals),
    )


def _left(before: Grant, after: Grant | None) -> bool:
    """Whether whoever had the slot has it no more."""
    return after is None or (before.holder is not None and before.holder not in after.names)
