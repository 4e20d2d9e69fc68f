"""Terms that only grow, whatever happened to the Lease."""

from __future__ import annotations

import pytest

from services.reconfigurer.controller import generations
from shared.contract import names
from shared.contract.generation import NONE, Generation


def test_a_new_leader_is_above_every_generation_in_use() -> None:
    """Its first change is newer than all that any node has seen."""
    in_use = [Generation(3, 40), Generation(7, 2)]
    assert generations.first(5, in_use).next() > max(in_use)


def test_a_deleted_lease_does_not_take_the_order_back() -> None:
    """With leaseTransitions at 0 again, the annotations keep the order."""
    assert generations.first(0, [Generation(7, 2)]) == Generation(8, 0)


def test_the_first_leader_ever_begins_at_term_one() -> None:
    """Term 0 means that nobody has led yet."""
    assert generations.first(0, []) == Generation(1, 0)


@pytest.mark.parametrize("text", ["", "x", "3", "3.x", "3.4.5"])
def test_an_annotation_that_cannot_be_read_counts_as_none(text: str) -> None:
    """People can write anything into annotations."""
    assert generations.noted({names.GENERATION_ANNOTATION: text}) == NONE


def test_a_generation_is_read_back_as_it_was_written() -> None:
    """The annotation holds `term.counter`."""
    written = Generation(12, 345)
    assert generations.noted({names.GENERATION_ANNOTATION: str(written)}) == written
