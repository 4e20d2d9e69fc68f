"""Which free slots are proposed, by policy."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

import pytest

from services.allocator import preference
from services.allocator.preference import NotEnoughGpusError, Request
from services.allocator.standing import Standing
from shared.domain import slots as slot_ids
from shared.domain.sharing import UNSHARED, AllocationPolicy, MigStrategy
from tests.support import hardware, slots
from tests.support.slots import GPU

DISTRIBUTED, PACKED, DISTINCT = AllocationPolicy
A, B = slots.named(0, "a"), slots.named(1, "b")
MIG = "nvidia.com/mig-1g.10gb"


def asked(
    standing: Standing,
    available: Sequence[str],
    size: int,
    policy: AllocationPolicy = DISTRIBUTED,
    must: Sequence[str] = (),
) -> tuple[str, ...]:
    request = Request(frozenset(available), frozenset(must), size)
    return preference.prefer(standing.slots[GPU], request, policy, standing.taken_elsewhere(GPU))


def all_ids(standing: Standing) -> list[str]:
    return [slot.id for slot in standing.listed(GPU)]


def cut_and_shared() -> Standing:
    """Two GPUs of two MIG devices with two slots each."""
    config = dataclasses.replace(hardware.time_sliced(2, MIG), mig_strategy=MigStrategy.MIXED)
    return slots.standing_of(config, hardware.mig_gpu(0, 2), hardware.mig_gpu(1, 2))


def in_a_row(standing: Standing, requests: int, policy: AllocationPolicy) -> str:
    """GPUs of one-slot requests, each taking what was proposed."""
    free, letters = all_ids(standing), ""
    for _ in range(requests):
        (chosen,) = asked(standing, free, 1, policy)
        free.remove(chosen)
        letters += slot_ids.device_of(chosen).removeprefix("GPU-")
    return letters


def test_u019_two_slots_come_from_two_gpus() -> None:
    """U019: 2 GPUs of 4 slots, all free, size 2: one of each."""
    standing = slots.standing_of(slots.time_sliced(4), A, B)
    assert asked(standing, all_ids(standing), 2) == ("GPU-a::0", "GPU-b::0")


def test_u019_distinct_refuses_what_it_cannot_give() -> None:
    """U019: with one GPU free, two slots are refused in a sentence with both numbers."""
    standing = slots.standing_of(slots.time_sliced(4), A, B)
    with pytest.raises(NotEnoughGpusError, match=r"^2 distinct GPUs needed, 1 available"):
        asked(standing, ["GPU-a::0", "GPU-a::1"], 2, DISTINCT)


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        pytest.param(DISTRIBUTED, "abab", id="distributed"),
        pytest.param(PACKED, "aabb", id="packed"),
    ],
)
def test_u021_four_requests_in_a_row(policy: AllocationPolicy, order: str) -> None:
    """U021: distributed takes turns, packed fills one GPU first."""
    standing = slots.standing_of(slots.time_sliced(2), A, B)
    assert in_a_row(standing, 4, policy) == order


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        pytest.param(DISTRIBUTED, ["0-0", "1-0", "0-1", "1-1", "0-0", "1-0"], id="distributed"),
        pytest.param(PACKED, ["0-0", "0-0", "0-1", "0-1", "1-0", "1-0"], id="packed"),
        pytest.param(DISTINCT, ["0-0", "1-0", "0-1", "1-1", "0-0", "1-0"], id="distinct"),
    ],
)
def test_mig_devices_of_a_gpu_take_turns_as_gpus_do(
    policy: AllocationPolicy, order: list[str]
) -> None:
    """No two pods share a MIG device beside one that nobody has, unless the text says packed."""
    standing = cut_and_shared()
    free = [slot.id for slot in standing.listed(MIG)]
    chosen: list[str] = []
    for _ in order:
        request = Request(frozenset(free), frozenset(), 1)
        chosen += preference.prefer(standing.slots[MIG], request, policy)
        free.remove(chosen[-1])
    assert [slot_ids.device_of(slot).removeprefix("MIG-") for slot in chosen] == order


def test_slots_of_one_request_lie_on_mig_devices_of_their_own() -> None:
    """Two slots of one MIG device give no more than one."""
    standing = cut_and_shared()
    request = Request(frozenset(slot.id for slot in standing.listed(MIG)), frozenset(), 4)
    chosen = preference.prefer(standing.slots[MIG], request, DISTRIBUTED)
    assert len({slot_ids.device_of(slot) for slot in chosen}) == 4


def test_slots_of_a_mig_device_taken_under_another_name_count_too() -> None:
    """After a rename a MIG device with an old holder is fuller than one without."""
    standing = cut_and_shared()
    free = frozenset(slot.id for slot in standing.listed(MIG) if slot.device.gpu_index == 0)
    elsewhere = {"GPU-0": 1, "MIG-0-0": 1}
    assert preference.prefer(
        standing.slots[MIG], Request(free, frozenset(), 1), DISTRIBUTED, elsewhere
    ) == ("MIG-0-1::0",)


def test_packed_goes_on_where_most_is_taken() -> None:
    """The GPU that is used already is filled before another is begun."""
    standing = slots.standing_of(slots.time_sliced(3), A, B)
    free = [slot for slot in all_ids(standing) if slot != "GPU-b::1"]
    assert asked(standing, free, 3, PACKED) == ("GPU-b::0", "GPU-b::2", "GPU-a::0")


def test_slots_taken_under_another_name_count_too() -> None:
    """After a rename a GPU with old holders is fuller than one without."""
    standing = slots.standing_of(slots.time_sliced(4), A, B)
    request = Request(frozenset(all_ids(standing)), frozenset(), 1)
    chosen = preference.prefer(standing.slots[GPU], request, DISTRIBUTED, {"GPU-a": 1})
    assert chosen == ("GPU-b::0",)


def test_the_order_of_ids_does_not_matter() -> None:
    """The kubelet names ids in random order; the answer is the same."""
    standing = slots.standing_of(slots.time_sliced(12), A, B)
    ids = all_ids(standing)
    answers = set()
    for seed in range(20):
        random.Random(seed).shuffle(ids)
        answers.add(asked(standing, ids, 5, must=["GPU-b::11"]))
    assert answers == {("GPU-b::11", "GPU-a::0", "GPU-a::1", "GPU-b::0", "GPU-a::2")}


def test_what_must_be_included_comes_first_and_counts() -> None:
    """A slot that the kubelet has decided on makes its GPU the fuller one."""
    standing = slots.standing_of(slots.time_sliced(4), A, B)
    chosen = asked(standing, all_ids(standing), 2, must=["GPU-a::3"])
    assert chosen == ("GPU-a::3", "GPU-b::0")


def test_no_more_than_asked() -> None:
    """What must be included may be all that is asked for."""
    standing = slots.standing_of(slots.time_sliced(4), A)
    assert asked(standing, all_ids(standing), 1, must=["GPU-a::3"]) == ("GPU-a::3",)


def test_u045_a_sick_gpu_is_never_proposed_and_stops_no_other() -> None:
    """U045: 8 GPUs, number 5 lost: the answer is a healthy one and no error."""
    gpus = [slots.named(index, str(index)) for index in range(8)]
    gpus[5] = slots.sick(gpus[5])
    standing = slots.standing_of(UNSHARED, *gpus)
    assert asked(standing, all_ids(standing), 1) == ("GPU-0",)
    assert "GPU-5" not in asked(standing, all_ids(standing), 8)


def test_only_ids_that_the_kubelet_offers() -> None:
    """Unknown ids are passed over; nothing is proposed that was not offered."""
    standing = slots.standing_of(slots.time_sliced(4), A, B)
    assert asked(standing, ["GPU-b::2", "GPU-nobody::0"], 2) == ("GPU-b::2",)


@pytest.mark.parametrize(
    ("nodes", "size", "chosen"),
    [
        pytest.param([0, 0, 1, 1], 2, ("GPU-0", "GPU-1"), id="both on one node"),
        pytest.param([0, 1, 1, 0], 2, ("GPU-0", "GPU-3"), id="not the next index, the same node"),
        pytest.param([0, 0, 0, 1], 1, ("GPU-3",), id="one from the node with least"),
        pytest.param([0, 1, 1, 1], 4, ("GPU-1", "GPU-2", "GPU-3", "GPU-0"), id="no node has room"),
        pytest.param([None, None], 1, ("GPU-0",), id="nodes unknown"),
    ],
)
def test_whole_gpus_are_kept_on_one_numa_node(
    nodes: list[int | None], size: int, chosen: tuple[str, ...]
) -> None:
    """Whole GPUs of one request stand near each other, and leave nodes whole for others."""
    gpus = [slots.named(index, str(index), numa=node) for index, node in enumerate(nodes)]
    standing = slots.standing_of(UNSHARED, *gpus)
    assert asked(standing, all_ids(standing), size) == chosen


def test_distinct_counts_what_must_be_included() -> None:
    """A GPU that is decided on is not given twice."""
    standing = slots.standing_of(slots.time_sliced(2), A, B)
    chosen = asked(standing, all_ids(standing), 2, DISTINCT, must=["GPU-a::1"])
    assert chosen == ("GPU-a::1", "GPU-b::0")
