"""What has to go, stay and come on one GPU, as a value: the fewest instances are destroyed.

Called by the agent before it does anything and again after every failure, by `slicewire plan` and
by the rehearsal. Equal situations give equal plans, whatever the order in which they are told,
and a plan that has been carried out is followed by an empty one.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from shared.geometry import place, rules, why
from shared.geometry.board import Board, Counts, Instance, Layout, ordered
from shared.geometry.config import Wanted


@dataclass(frozen=True, slots=True)
class Standing:
    """An instance that is there, and the pods that hold it; a pod not yet known is named ""."""

    instance: Instance
    holders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """A GPU before the plan: MIG mode in force, instances, and the pods that hold the whole GPU."""

    enabled: bool
    standing: tuple[Standing, ...] = ()
    holders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Blocker:
    """A pod that has to go first; `instance` is None where it holds the whole GPU."""

    holder: str
    instance: Instance | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unused:
    """What no instance has of the widest one's share; None where nobody published the sizes."""

    memory_mib: int | None = 0
    slices: int = 0
    multiprocessors: int | None = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Steps on one GPU, each list by start. `mode` is the MIG mode to set, None to leave it."""

    keep: Layout = ()
    destroy: Layout = ()
    create: Layout = ()
    mode: bool | None = None
    blockers: tuple[Blocker, ...] = ()
    unused: Unused = Unused()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.destroy and not self.create and self.mode is None

    @property
    def after(self) -> Layout:
        """The layout when all is done."""
        return ordered((*self.keep, *self.create))


def towards(board: Board, current: Current, wanted: Wanted) -> Plan:
    """Plan the way to a layout.

    Raises:
        InfeasibleError: it does not fit the board.
    """
    counts = dict(wanted.counts)
    worth = {each.instance: (len(each.holders), 1) for each in current.standing}
    layout = None if rules.broken(board, counts) else place.arrange(board, counts, worth=worth)
    if layout is None:
        raise why.InfeasibleError(why.reason(board, counts), why.nearest(board, counts))
    return _plan(board, current, layout, enabled=wanted.enabled)


def adding(board: Board, current: Current, demand: Counts) -> Plan:
    """Plan so that idle instances of all profiles in `demand` are there beside the busy ones.

    Idle instances count as they are; where room is needed, as few as possible of the others go.
    Busy ones stay.

    Raises:
        InfeasibleError: the demand does not fit beside the busy instances.
    """
    busy = ordered(each.instance for each in current.standing if each.holders)
    idle = ordered(each.instance for each in current.standing if not each.holders)
    for count in range(len(idle), -1, -1):
        layouts = [*_beside(board, busy, itertools.combinations(idle, count), demand)]
        if layouts:
            best = min(layouts, key=lambda layout: _effort(board, current, layout))
            return _plan(board, current, best, enabled=True)
    raise why.InfeasibleError(
        why.reason(board, demand, busy), why.largest_parts(board, demand, busy)
    )


def _beside(board: Board, busy: Layout, kept: Iterable[Layout], demand: Counts) -> Iterator[Layout]:
    """Give the layouts that meet a demand with `busy` and one choice of idle instances kept."""
    for choice in kept:
        idle = Counter(instance.profile for instance in choice)
        missing = Counter(demand) - idle
        staying = (*busy, *choice)
        if rules.broken(board, missing + Counter(each.profile for each in staying)):
            continue
        made = place.arrange(board, missing, taken=board.mask(staying))
        if made is not None:
            yield ordered((*staying, *made))


def _effort(board: Board, current: Current, layout: Layout) -> tuple[int, int, Layout]:
    """Order layouts that keep equally many instances: fewest new ones, those that crowd least."""
    present = {each.instance for each in current.standing}
    crowding = place.crowding(board)
    new = [instance for instance in layout if instance not in present]
    return len(new), sum(crowding[each] for each in new), layout


def _plan(board: Board, current: Current, layout: Layout, *, enabled: bool) -> Plan:
    """Compare what is there with a layout."""
    kept = frozenset(layout).intersection(each.instance for each in current.standing)
    plan = Plan(
        keep=ordered(kept),
        destroy=ordered(each.instance for each in current.standing if each.instance not in kept),
        create=ordered(instance for instance in layout if instance not in kept),
        mode=None if enabled is current.enabled else enabled,
        unused=unused(board, layout) if enabled else Unused(),
    )
    return plan if plan.empty else dataclasses.replace(plan, blockers=_blockers(current, kept))


def _blockers(current: Current, kept: frozenset[Instance]) -> tuple[Blocker, ...]:
    """Name who is in the way: of an instance that goes, and of the GPU itself for any change."""
    of_gpu = [Blocker(holder) for holder in sorted(current.holders)]
    going = {each.instance: each for each in current.standing if each.instance not in kept}
    of_instances = [
        Blocker(holder, instance)
        for instance in ordered(going)
        for holder in sorted(going[instance].holders)
    ]
    return (*of_gpu, *of_instances)


def unused(board: Board, layout: Iterable[Instance]) -> Unused:
    """Say what a layout leaves of the instance that has most of the GPU."""
    profiles = [board.profile(instance.profile) for instance in layout]
    return Unused(
        memory_mib=_rest(board.widest.memory_mib, [each.memory_mib for each in profiles]),
        slices=board.widest.slices - sum(each.slices for each in profiles),
        multiprocessors=_rest(
            board.widest.multiprocessors, [each.multiprocessors for each in profiles]
        ),
    )


def _rest(whole: int | None, parts: Sequence[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    if whole is None or len(known) < len(parts):
        return None
    return max(whole - sum(known), 0)
