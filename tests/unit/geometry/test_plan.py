"""What is kept, destroyed and created on one GPU, who is in the way, and what stays unused."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from shared.geometry import plan, why
from shared.geometry.board import Instance, Layout
from shared.geometry.config import Wanted
from shared.geometry.plan import Blocker, Current, Plan, Standing, Unused
from tests.support import cuts

BOARD = cuts.board(cuts.SEVEN)
ONE, TWO, THREE, FOUR, WHOLE = ("1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")


def wanted(**counts: int) -> Wanted:
    """MIG on with these profiles of an A100 with 80 GB: g1=2 is two of 1g.10gb."""
    names = {"g1": ONE, "g2": TWO, "g3": THREE, "g4": FOUR, "g7": WHOLE}
    return Wanted(enabled=True, counts=tuple(sorted((names[k], n) for k, n in counts.items())))


def cut(*instances: Instance, busy: tuple[Instance, ...] = ()) -> Current:
    """A GPU with MIG on and these instances, some held by the pod team/train."""
    return Current(
        enabled=True,
        standing=tuple(
            Standing(each, ("team/train",) if each in busy else ()) for each in instances
        ),
    )


def after(current: Current, done: Plan) -> Current:
    """The GPU when a plan has been carried out: blockers gone, the new instances idle."""
    staying = {each.instance: each for each in current.standing if each.instance in done.keep}
    new = tuple(Standing(instance) for instance in done.create)
    return Current(
        enabled=current.enabled if done.mode is None else done.mode,
        standing=(*staying.values(), *new),
        holders=() if done.blockers else current.holders,
    )


MIXED: Layout = (Instance(ONE, 0), Instance(ONE, 1), Instance(TWO, 2), Instance(THREE, 4))


def test_dropping_one_of_two_destroys_one() -> None:
    """The others stay where they are; the bench's first change."""
    found = plan.towards(BOARD, cut(*MIXED), wanted(g1=1, g2=1, g3=1))
    assert found.destroy == (Instance(ONE, 1),)
    assert found.create == ()
    assert found.keep == (MIXED[0], *MIXED[2:])


def test_u059_a_busy_instance_that_is_wanted_again_stays() -> None:
    """The rest goes, six come, and nobody is in the way."""
    busy = MIXED[0]
    found = plan.towards(BOARD, cut(*MIXED, busy=(busy,)), wanted(g1=7))
    assert busy in found.keep
    assert found.destroy == (Instance(TWO, 2), Instance(THREE, 4))
    assert found.create == tuple(Instance(ONE, start) for start in (2, 3, 4, 5, 6))
    assert found.blockers == ()


def test_u059_a_busy_instance_that_blocks_the_layout_is_named_with_its_pod() -> None:
    """4g stands at 0 only, where the busy 1g is."""
    busy = MIXED[0]
    found = plan.towards(BOARD, cut(*MIXED, busy=(busy,)), wanted(g4=1, g1=1))
    assert found.blockers == (Blocker("team/train", busy),)
    assert busy in found.destroy


def test_of_equal_instances_the_busy_ones_stay() -> None:
    """Fewest pods are disturbed, then fewest instances."""
    row = tuple(Instance(ONE, start) for start in range(7))
    found = plan.towards(BOARD, cut(*row, busy=(row[2], row[5])), wanted(g1=2))
    assert found.keep == (row[2], row[5])
    assert found.blockers == ()


def test_one_pod_less_is_worth_two_idle_instances() -> None:
    """The busy 1g at 1 stays although keeping the idle 2g and 3g would destroy fewer."""
    standing = (Instance(ONE, 1), Instance(TWO, 2), Instance(THREE, 4))
    found = plan.towards(BOARD, cut(*standing, busy=standing[:1]), wanted(g1=2, g2=2))
    assert standing[0] in found.keep
    assert found.blockers == ()


def test_u057_the_same_plan_for_all_orders() -> None:
    """Neither the order of instances nor that of the board's profiles shows."""
    shuffled = dataclasses.replace(BOARD, profiles=BOARD.profiles[::-1])
    found = {
        plan.towards(board, cut(*order), wanted(g4=1, g2=1, g1=1))
        for board in (BOARD, shuffled)
        for order in itertools.permutations(MIXED)
    }
    assert len(found) == 1


def test_u061_an_empty_gpu_after_a_reboot_is_cut_again_with_nobody_in_the_way() -> None:
    """Geometry is volatile: what is wanted is compared with the hardware."""
    found = plan.towards(BOARD, Current(enabled=True), wanted(g1=7))
    assert len(found.create) == 7
    assert found.blockers == ()
    assert found.mode is None


def test_u057_the_impossible_is_refused_with_reason_and_what_fits() -> None:
    """Before anything is destroyed."""
    for counts in ({"g1": 8}, {"g3": 3}, {"g4": 2}):
        with pytest.raises(why.InfeasibleError) as caught:
            plan.towards(BOARD, cut(*MIXED), wanted(**counts))
        assert caught.value.reason
        assert caught.value.suggestion.startswith("what fits: ")


def test_mode_on_waits_for_who_holds_the_whole_gpu() -> None:
    """A change of mode needs the GPU empty."""
    found = plan.towards(BOARD, Current(enabled=False, holders=("team/whole",)), wanted(g3=2))
    assert found.mode is True
    assert found.blockers == (Blocker("team/whole"),)
    assert found.create == (Instance(THREE, 0), Instance(THREE, 4))


def test_mode_off_destroys_all_instances() -> None:
    """Whoever holds one is in the way."""
    found = plan.towards(BOARD, cut(*MIXED, busy=MIXED[2:3]), Wanted(enabled=False))
    assert found.mode is False
    assert found.destroy == MIXED
    assert found.blockers == (Blocker("team/train", MIXED[2]),)
    assert found.unused == Unused()


def test_nothing_to_do_blocks_nobody() -> None:
    """Who holds the GPU is in nobody's way while it stays as it is."""
    current = Current(enabled=False, holders=("team/whole",))
    found = plan.towards(BOARD, current, Wanted(enabled=False))
    assert found.empty
    assert found.blockers == ()


def test_what_stays_unused_is_told() -> None:
    """Seven 1g leave a memory slice, a single 3g leaves more than half."""
    sevenths = plan.towards(BOARD, Current(enabled=True), wanted(g1=7)).unused
    assert sevenths == Unused(memory_mib=80896 - 7 * 9728, slices=0, multiprocessors=0)
    half = plan.towards(BOARD, Current(enabled=True), wanted(g3=1)).unused
    assert half == Unused(memory_mib=80896 - 40192, slices=4, multiprocessors=56)
    assert plan.towards(BOARD, Current(enabled=True), wanted(g7=1)).unused == Unused()


def test_what_nobody_published_is_not_invented() -> None:
    """A model of which only the names are known."""
    found = plan.unused(cuts.board("b300-269gb"), (Instance("1g.34gb", 0),))
    assert found == Unused(memory_mib=None, slices=6, multiprocessors=None)


# ------------------------------------------------------------------------------------- demand


def test_a_demand_is_met_by_idle_instances_as_they_are() -> None:
    """Nothing is made where it is there."""
    assert plan.adding(BOARD, cut(*MIXED), {ONE: 2, THREE: 1}).empty


def test_a_demand_takes_room_of_idle_instances_only() -> None:
    """As few of them as possible go; busy ones and the rest stay."""
    found = plan.adding(BOARD, cut(*MIXED, busy=MIXED[:1]), {TWO: 2})
    assert found.destroy == (Instance(THREE, 4),)
    assert found.create == (Instance(TWO, 4),)
    assert found.keep == MIXED[:3]
    assert found.blockers == ()


def test_a_demand_that_busy_instances_leave_no_place_for_is_refused() -> None:
    """With the free slices, the starts, and the part that fits."""
    busy = (Instance(ONE, 0), Instance(ONE, 1), Instance(ONE, 5))
    with pytest.raises(why.InfeasibleError) as caught:
        plan.adding(BOARD, cut(*busy, busy=busy), {THREE: 1, ONE: 1})
    assert caught.value.reason == "fragmented: free 2,3,4,6,7; 3g.40gb needs start 0 or 4"
    assert caught.value.nearest == ("1g.10gb",)


def test_a_demand_minds_the_rules_for_what_stays() -> None:
    """An idle instance with the media extensions makes way for the one that is asked for."""
    board = cuts.board(cuts.FOUR)
    standing = cut(Instance("1g.6gb+me", 0), Instance("1g.6gb", 1))
    found = plan.adding(board, standing, {"2g.12gb+me": 1})
    assert found.destroy == (Instance("1g.6gb+me", 0),)
    assert found.create == (Instance("2g.12gb+me", 2),)


def test_a_plan_that_was_carried_out_is_followed_by_an_empty_one() -> None:
    """Both sides: a layout and a demand."""
    current = cut(*MIXED, busy=MIXED[:1])
    done = plan.towards(BOARD, current, wanted(g4=1, g2=1))
    assert plan.towards(BOARD, after(current, done), wanted(g4=1, g2=1)).empty
    demanded = plan.adding(BOARD, current, {TWO: 2})
    assert plan.adding(BOARD, after(current, demanded), {TWO: 2}).empty
