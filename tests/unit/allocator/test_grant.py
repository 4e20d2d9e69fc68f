"""What a container gets, and which requests are refused with which sentence."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from services.allocator import grant, ledger, standing
from services.allocator.grant import Answer, InvalidRequestError, WithheldError
from services.allocator.preference import NotEnoughGpusError
from services.allocator.settings import AllocatorSettings
from services.allocator.standing import Standing
from shared.domain.sharing import UNSHARED, AllocationPolicy, MigStrategy, SharingConfig
from tests.support import hardware, slots
from tests.support.slots import GPU, SECOND, listing

A, B = slots.named(0, "a"), slots.named(1, "b")


def answer(
    now: Standing, *ids: str, resource: str = GPU, on_host: Callable[[str], str] = str
) -> Answer:
    return grant.answer(resource, ids, now.slots[resource], now.rules[resource], on_host)


def test_one_slot_gives_its_gpu_and_the_control_nodes() -> None:
    """Plain device nodes of the physical GPU, and nothing of any other."""
    now = slots.standing_of(slots.time_sliced(4), A, B)
    assert answer(now, "GPU-b::2", on_host="/host{}".format) == Answer(
        envs={"NVIDIA_VISIBLE_DEVICES": "GPU-b"},
        nodes=(
            ("/dev/nvidia1", "/host/dev/nvidia1"),
            ("/dev/nvidiactl", "/host/dev/nvidiactl"),
            ("/dev/nvidia-uvm", "/host/dev/nvidia-uvm"),
            ("/dev/nvidia-uvm-tools", "/host/dev/nvidia-uvm-tools"),
        ),
    )


def test_u023_five_thousand_slots_of_one_gpu_are_one_uuid() -> None:
    """U023: the variable names the GPU once, and its node is passed once."""
    now = slots.standing_of(slots.time_sliced(5000), A)
    got = answer(now, *(f"GPU-a::{number}" for number in range(5000)))
    assert got.envs == {"NVIDIA_VISIBLE_DEVICES": "GPU-a"}
    assert [inside for inside, _ in got.nodes].count("/dev/nvidia0") == 1
    assert len(str(got)) < 4096


def test_uuids_stand_in_the_order_of_gpu_indexes() -> None:
    """Whatever the order of ids, index 2 comes before index 10."""
    gpus = [slots.named(index, f"{index:02}") for index in range(12)]
    now = slots.standing_of(UNSHARED, *gpus)
    ids = ["GPU-10", "GPU-02", "GPU-00"]
    random.Random(1).shuffle(ids)
    assert answer(now, *ids).envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-00,GPU-02,GPU-10"


def test_a_mig_device_comes_with_its_parents_node() -> None:
    """The variable names the MIG device, the node is the GPU's."""
    config = SharingConfig(mig_strategy=MigStrategy.SINGLE)
    now = slots.standing_of(config, hardware.mig_gpu(3, 2))
    got = answer(now, "MIG-3-1")
    assert got.envs == {"NVIDIA_VISIBLE_DEVICES": "MIG-3-1"}
    assert got.nodes[0] == ("/dev/nvidia3", "/dev/nvidia3")


def test_more_than_one_slot_is_refused_where_the_text_says_so() -> None:
    """The sentence names resource, requested, limit and field."""
    now = slots.standing_of(slots.time_sliced(4, one_only=True), A)
    with pytest.raises(InvalidRequestError) as refusal:
        answer(now, "GPU-a::0", "GPU-a::1")
    assert str(refusal.value) == (
        "nvidia.com/gpu: 2 slots requested, the limit is 1, because"
        " sharing.timeSlicing.failRequestsGreaterThanOne is true;"
        " request 1 (more slots give no more of the GPU)"
    )
    assert answer(now, "GPU-a::0")


def test_without_that_field_more_than_one_is_granted() -> None:
    """Time-slicing allows it by default."""
    now = slots.standing_of(slots.time_sliced(4), A)
    assert answer(now, "GPU-a::0", "GPU-a::1")


def test_unknown_ids_are_named() -> None:
    """The sentence names the resource and the id."""
    now = slots.standing_of(slots.time_sliced(2), A)
    with pytest.raises(InvalidRequestError, match=r"^nvidia.com/gpu has no slot 'GPU-a::9' on"):
        answer(now, "GPU-a::0", "GPU-a::9")


def test_slots_of_a_sick_gpu_are_refused_with_the_reason() -> None:
    """The kubelet may not have taken in the list yet."""
    now = slots.standing_of(slots.time_sliced(2), slots.sick(A), B)
    with pytest.raises(WithheldError, match=r"slot GPU-a::0 .* GPU-a is sick: XID 79"):
        answer(now, "GPU-a::0")
    assert answer(now, "GPU-b::0")


def test_retiring_slots_are_refused() -> None:
    """A slot beyond the new number ends with its holder."""
    state = slots.state_of(slots.inventory(slots.time_sliced(4), A))
    held = listing(("p", ["GPU-a::1", "GPU-a::2", "GPU-a::3"]))
    state = ledger.listed(state, held, SECOND).state
    seen = slots.inventory(slots.time_sliced(2), A)
    now = standing.derive(ledger.devices(state, seen, confirmed=True).state)
    with pytest.raises(WithheldError, match="it is no longer offered"):
        answer(now, "GPU-a::3")


def test_distinct_is_kept_where_the_kubelet_did_not_ask() -> None:
    """Two slots of one GPU under the policy distinct are refused at Allocate too."""
    now = slots.standing_of(slots.time_sliced(2, policy=AllocationPolicy.DISTINCT), A, B)
    with pytest.raises(NotEnoughGpusError, match="2 distinct GPUs needed, 1 available"):
        answer(now, "GPU-a::0", "GPU-a::1")
    assert answer(now, "GPU-a::0", "GPU-b::1")


def test_a_simulated_gpu_s_devices_are_all_the_stand_in() -> None:
    """The host has no such device; the container finds one under each path that it may look for."""
    settings = AllocatorSettings(node_name="n", dev_stand_in="/dev/null")
    now = slots.standing_of(slots.time_sliced(4), A, B)
    given = answer(now, "GPU-b::2", on_host=settings.on_host)
    assert {on_host for _inside, on_host in given.nodes} == {"/dev/null"}
    assert "/dev/nvidiactl" in dict(given.nodes)
