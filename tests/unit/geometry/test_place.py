"""What fits a board, where it stands, and the reason in slices where it does not."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter

import pytest

from shared.geometry import place, why
from shared.geometry.board import Board, Instance, Profile, words
from tests.support import cuts
from tests.support.cuts import FOUR, SEVEN, TWELVE
from tests.unit.geometry.sets import FEASIBLE, INFEASIBLE


@pytest.mark.parametrize(
    ("model", "kinds"), [(model, kinds) for model, sets in FEASIBLE.items() for kinds in sets]
)
def test_published_sets_fit(model: str, kinds: str) -> None:
    """Each set that NVIDIA shows has a placement within the tables."""
    counts = cuts.of_kinds(model, kinds)
    layout = place.fit(cuts.board(model), counts)
    assert layout in cuts.by_multiset(model)[tuple(sorted(counts.items()))]
    assert why.reason(cuts.board(model), counts) == ""


@pytest.mark.parametrize(
    ("model", "kinds", "part"),
    [(model, *row) for model, rows in INFEASIBLE.items() for row in rows],
)
def test_what_does_not_fit_is_told_in_slices(model: str, kinds: str, part: str) -> None:
    """Each set that a board cannot hold has its reason, and layouts that fit instead."""
    board, counts = cuts.board(model), cuts.of_kinds(model, kinds)
    assert place.fit(board, counts) is None
    assert part in why.reason(board, counts)
    assert len(why.nearest(board, counts)) == 3


@pytest.mark.parametrize("model", [SEVEN, FOUR, TWELVE])
def test_verdicts_agree_with_plain_enumeration(model: str) -> None:
    """A multiset fits exactly where some layout of the tables consists of it."""
    board = cuts.board(model)
    names = [profile.name for profile in board.profiles if profile.name.endswith("gb")]
    ranges = (range(board.profile(name).most + 2) for name in names)
    for numbers in itertools.product(*ranges):
        counts = {name: count for name, count in zip(names, numbers, strict=True) if count}
        fits = tuple(sorted(counts.items())) in cuts.by_multiset(model)
        assert (place.fit(board, counts) is not None) is fits, counts
        assert (why.reason(board, counts) == "") is fits, counts


def test_boards_fill_in_the_order_of_the_driver() -> None:
    """One more instance each time takes the start that NVIDIA's driver would take."""
    board = cuts.board(SEVEN)
    assert [i.start for i in place.fit(board, {"1g.10gb": 1}) or ()] == [6]
    assert [i.start for i in place.fit(board, {"1g.10gb": 3}) or ()] == [4, 5, 6]
    assert [i.start for i in place.fit(board, {"2g.20gb": 1}) or ()] == [4]
    assert [i.start for i in place.fit(board, {"2g.20gb": 2}) or ()] == [0, 4]
    assert [i.start for i in place.fit(board, {"3g.40gb": 1}) or ()] == [4]


def test_the_order_of_a_request_plays_no_part() -> None:
    """U057: 4g, 2g and 1g listed in any order stand in the same places."""
    board = cuts.board(SEVEN)
    names = ("1g.10gb", "2g.20gb", "4g.40gb")
    found = {place.fit(board, Counter(order)) for order in itertools.permutations(names)}
    assert found == {(Instance("4g.40gb", 0), Instance("2g.20gb", 4), Instance("1g.10gb", 6))}
    shuffled = dataclasses.replace(board, profiles=board.profiles[::-1])
    assert place.fit(shuffled, Counter(names)) in found


def test_a_fragmented_board_names_free_slices_and_possible_starts() -> None:
    """Slices enough, but none where the profile may start."""
    busy = tuple(Instance("1g.10gb", start) for start in (0, 1, 5))
    board = cuts.board(SEVEN)
    reason = why.reason(board, {"3g.40gb": 1}, busy)
    assert reason == "fragmented: free 2,3,4,6,7; 3g.40gb needs start 0 or 4"
    asked = {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 1}
    assert why.largest_parts(board, asked, busy) == ("2g.20gb + 1g.10gb",)


def test_beside_instances_that_stay_the_sum_is_told_with_them() -> None:
    """Too many slices together: the reason names both sides."""
    reason = why.reason(cuts.board(SEVEN), {"3g.40gb": 2}, (Instance("1g.10gb", 0),))
    assert reason == "3g.40gb + 3g.40gb beside 1g.10gb: memory slices 9 of 8"


def test_nearest_layouts_change_least() -> None:
    """What is left out or exchanged is as little as possible."""
    board = cuts.board(SEVEN)
    assert why.nearest(board, cuts.of_kinds(SEVEN, "3g 3g 1g"))[0] == "3g.40gb + 3g.40gb"
    assert why.nearest(board, {"1g.10gb": 8})[0] == "7 x 1g.10gb"
    assert why.nearest(board, {"4g.40gb": 2})[0] == "4g.40gb + 3g.40gb"


def test_a_name_of_another_driver_or_of_nvidias_formula_finds_its_profile() -> None:
    """`3g.39gb` of an old driver is also 3g.40gb to the formula, and nothing else is."""
    board = cuts.board(SEVEN)
    older = dataclasses.replace(
        board,
        profiles=tuple(
            dataclasses.replace(each, name=each.name.replace("40gb", "39gb"))
            for each in board.profiles
        ),
    )
    for name in ("3g.39gb", "3g.40gb", "1c.3g.40gb"):
        found = older.find(name)
        assert found is not None
        assert found.name == "3g.39gb"
    assert older.find("3g.38gb") is None
    assert board.find("3g.20gb") is None


def test_ids_make_no_profile_differ() -> None:
    """U055: the same profile has another id on another GPU."""
    one = Profile(name="1g.6gb", slices=1, size=1, starts=(0, 1, 2, 3), most=4, id=15)
    other = dataclasses.replace(one, id=14)
    assert one == other
    assert Board(memory_mib=24576, profiles=(one,)) == Board(memory_mib=24576, profiles=(other,))


def test_multisets_are_written_largest_first() -> None:
    """Twice is written twice, more often is counted."""
    assert words({"1g.10gb": 1, "3g.40gb": 2}) == "3g.40gb + 3g.40gb + 1g.10gb"
    assert words({"1g.10gb": 8, "1g.20gb": 1}) == "1g.20gb + 8 x 1g.10gb"
    assert words({}) == "nothing"
