"""Plans against brute force: every layout of three kinds of boards, and random situations."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.geometry import place, plan, why
from shared.geometry.board import Instance, Layout
from shared.geometry.config import Wanted
from shared.geometry.plan import Current, Plan, Standing
from tests.support import cuts
from tests.support.cuts import FOUR, SEVEN, TWELVE, Multiset

BOARDS = (SEVEN, FOUR, TWELVE)
EVERY_PAIR = os.environ.get("SLICEWIRE_PROPS") == "long"
A_FEW = 4  # wanted multisets for each layout where not every pair is tried


def current_of(layout: Layout, busy: frozenset[Instance]) -> Current:
    """A GPU with this layout; each busy instance has a pod of its own."""
    return Current(
        enabled=True,
        standing=tuple(
            Standing(each, (f"team/{each.start}",) if each in busy else ()) for each in layout
        ),
    )


def after(current: Current, done: Plan) -> Current:
    """The GPU when the plan has been carried out."""
    staying = tuple(each for each in current.standing if each.instance in done.keep)
    return Current(enabled=True, standing=(*staying, *map(Standing, done.create)))


def disturbed(current: Layout, busy: frozenset[Instance], target: Layout) -> tuple[int, int]:
    """How many busy, and how many instances at all a way to a layout destroys."""
    gone = set(current) - set(target)
    return len(gone & busy), len(gone)


def check_steps(model: str, current: Current, done: Plan) -> None:
    """What stays stands where it stood, and the result is a layout of the tables."""
    before = {each.instance for each in current.standing}
    assert set(done.keep) | set(done.destroy) == before
    assert not set(done.keep) & set(done.destroy)
    assert not set(done.create) & set(done.keep)
    assert done.after in cuts.by_multiset(model)[cuts.multiset(done.after)]
    held = [each for each in current.standing if each.holders and each.instance in done.destroy]
    assert {each.instance for each in done.blockers} == {each.instance for each in held}


def pairs(model: str) -> list[tuple[Layout, Multiset]]:
    """Every layout with every wanted multiset, or with a few that change from one to the next."""
    layouts, multisets = cuts.layouts(model), tuple(cuts.by_multiset(model))
    if EVERY_PAIR:
        return list(itertools.product(layouts, multisets))
    around = itertools.cycle(multisets)
    return [(layout, next(around)) for layout in layouts for _ in range(A_FEW)]


@pytest.mark.parametrize("model", BOARDS)
@pytest.mark.timeout(600 if EVERY_PAIR else 60)
def test_brute_force_finds_no_plan_that_disturbs_less(model: str) -> None:
    """From every layout of the board, some instances busy."""
    board = cuts.board(model)
    for number, (layout, multiset) in enumerate(pairs(model)):
        busy = frozenset(each for each in layout if (each.start + number) % 3 == 0)
        done = plan.towards(board, current_of(layout, busy), Wanted(enabled=True, counts=multiset))
        assert cuts.multiset(done.after) == multiset
        targets = cuts.by_multiset(model)[multiset]
        least = min(disturbed(layout, busy, target) for target in targets)
        assert disturbed(layout, busy, done.after) == least, (layout, multiset)


@st.composite
def situations(draw: st.DrawFn) -> tuple[str, Layout, frozenset[Instance], Multiset]:
    """A board, a layout on it, its busy instances, and a wanted multiset that fits."""
    model = draw(st.sampled_from(BOARDS))
    layout = draw(st.sampled_from(cuts.layouts(model)))
    busy = frozenset(draw(st.sets(st.sampled_from(layout)))) if layout else frozenset()
    return model, layout, busy, draw(st.sampled_from(tuple(cuts.by_multiset(model))))


@given(situations(), st.randoms(use_true_random=False))
def test_plans_keep_order_and_end(
    situation: tuple[str, Layout, frozenset[Instance], Multiset], random: Random
) -> None:
    """Equal for all orders, within the tables, nothing moves, and then nothing is left to do."""
    model, layout, busy, multiset = situation
    board, wanted = cuts.board(model), Wanted(enabled=True, counts=multiset)
    current = current_of(layout, busy)
    done = plan.towards(board, current, wanted)
    check_steps(model, current, done)
    shuffled = list(layout)
    random.shuffle(shuffled)
    assert plan.towards(board, current_of(tuple(shuffled), busy), wanted) == done
    assert plan.towards(board, after(current, done), wanted).empty


@given(situations())
def test_demands_are_met_with_fewest_idle_instances_gone(
    situation: tuple[str, Layout, frozenset[Instance], Multiset],
) -> None:
    """Brute force over all layouts of the board that keep the busy ones agrees."""
    model, layout, busy, multiset = situation
    board, demand = cuts.board(model), Counter(dict(multiset))
    current = current_of(layout, busy)

    def meets(target: Layout) -> bool:
        idle = Counter(each.profile for each in target if each not in busy)
        return busy <= set(target) and demand <= idle

    possible = [target for target in cuts.layouts(model) if meets(target)]
    try:
        done = plan.adding(board, current, demand)
    except why.InfeasibleError:
        assert not possible
        return
    check_steps(model, current, done)
    assert meets(done.after)
    assert not done.blockers
    assert len(done.destroy) == min(len(set(layout) - set(target)) for target in possible)
    assert plan.adding(board, after(current, done), demand).empty


@pytest.mark.parametrize("model", cuts.MODELS)
@given(data=st.data())
def test_what_is_said_to_fit_fits(model: str, data: st.DataObject) -> None:
    """Every catalogue model: a reason exactly where there is no layout, and what is near fits."""
    board = cuts.board(model)
    names = st.sampled_from([profile.name for profile in board.profiles])
    counts = Counter(data.draw(st.lists(names, max_size=8)))
    layout = place.fit(board, counts)
    assert (layout is None) is bool(why.reason(board, counts))
    if layout is None:
        assert why.nearest(board, counts)
    else:
        assert cuts.multiset(layout) == tuple(sorted(counts.items()))
