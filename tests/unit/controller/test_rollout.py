"""How many nodes change at a time, and which come next."""

from __future__ import annotations

import random

import pytest

from services.reconfigurer.controller import rollout
from services.reconfigurer.controller.rollout import Stage


@pytest.mark.parametrize(
    ("given", "nodes", "limit"),
    [("1", 10, 1), ("3", 10, 3), ("25%", 10, 2), ("25%", 3, 1), ("100%", 4, 4), ("10%", 0, 1)],
)
def test_a_limit_is_a_number_or_a_part_rounded_down_but_never_none(
    given: str, nodes: int, limit: int
) -> None:
    assert rollout.limit(given, nodes) == limit


def test_the_next_nodes_come_by_name_whatever_order_they_are_seen_in() -> None:
    """Equal for every order of the mapping."""
    names = [f"gpu-{number}" for number in range(6)]
    for _ in range(5):
        random.shuffle(names)
        stages = dict.fromkeys(names, Stage.WAITING)
        assert rollout.may_start(stages, "2") == {"gpu-0", "gpu-1"}


def test_nodes_that_have_begun_or_failed_take_places_and_keep_them() -> None:
    """Also where the limit has been lowered meanwhile; a failed one may try again."""
    stages = {"a": Stage.WAITING, "b": Stage.BEGUN, "c": Stage.FAILED, "d": Stage.SETTLED}
    assert rollout.may_start(stages, "1") == {"b", "c"}
    assert rollout.may_start(stages, "2") == {"b", "c"}
    assert rollout.may_start(stages, "3") == {"a", "b", "c"}


def test_a_layout_that_fails_everywhere_stops_at_the_limit() -> None:
    """The fleet behind it goes on serving."""
    stages = dict.fromkeys((f"gpu-{number:02}" for number in range(20)), Stage.WAITING)
    started: set[str] = set()
    for _ in range(10):
        started |= rollout.may_start(stages, "10%")
        stages |= dict.fromkeys(started, Stage.FAILED)
    assert started == {"gpu-00", "gpu-01"}
