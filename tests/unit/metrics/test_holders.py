"""The ledger as series: who holds which slot, and how many slots there are of each state."""

from __future__ import annotations

import dataclasses

from services.advertiser import measures as advertiser
from services.allocator import account, ledger, measures, standing
from services.allocator.ledger import State
from shared.contract.messages import Inventory
from shared.domain import slots as slot_ids
from shared.domain.gpu import Gpu, MigDevice, MigMode
from shared.domain.sharing import MigStrategy, SharingConfig
from shared.telemetry import catalogue
from tests.support import hardware, slots
from tests.support.slots import GPU, SECOND, listing

Labels = dict[str, str]


def shown(state: State) -> list[catalogue.Sample]:
    """Everything that a scrape of the allocator would find in the ledger."""
    written = account.write(hardware.stamp(), state, standing.derive(state))
    return list(measures.samples(written))


def holders(state: State) -> list[Labels]:
    """Labels of the holder series; each has the value 1."""
    found = [each for each in shown(state) if each.instrument is catalogue.HOLDER]
    assert all(each.value == 1 for each in found)
    return [each.labels for each in found]


def held(seen: Inventory, *rows: tuple[str, list[str]], resource: str = GPU) -> State:
    """A ledger after one List."""
    named = listing(*rows, resource=resource)
    return ledger.listed(slots.state_of(seen), named, SECOND).state


def cut(uuid: str = "GPU-a") -> Gpu:
    """An A100 of 40 GB as 2 x 3g.20gb: GPU instances 1 and 2."""
    pair = tuple(
        MigDevice(
            index=number,
            uuid=f"MIG-{number}",
            profile="3g.20gb",
            gpu_instance=1 + number,
            compute_instance=0,
            start=4 * number,
            size=4,
            memory_mib=19968,
            multiprocessors=42,
            gpu_slices=3,
            compute_slices=3,
        )
        for number in range(2)
    )
    mode = MigMode(current=True, pending=True)
    return dataclasses.replace(hardware.gpu(0, uuid), mig_mode=mode, mig_devices=pair)


MIXED = SharingConfig(mig_strategy=MigStrategy.MIXED)


def test_u087_exactly_one_series_for_each_held_slot_and_none_for_the_free_one() -> None:
    """U087: GPU a in 4 slots, pods p1 to p3; a second look says the same in the same order."""
    seen = slots.inventory(slots.time_sliced(4), hardware.gpu(0, "GPU-a"))
    state = held(seen, ("p3", ["GPU-a::3"]), ("p1", ["GPU-a::0"]), ("p2", ["GPU-a::1"]))
    found = holders(state)
    assert {(each["pod"], each["slot"]) for each in found} == {
        ("p1", "GPU-a::0"),
        ("p2", "GPU-a::1"),
        ("p3", "GPU-a::3"),
    }
    assert len(found) == 3
    assert found[0] == {
        "namespace": "default",
        "pod": found[0]["pod"],
        "container": "main",
        "uuid": "GPU-a",
        "parent": "GPU-a",
        "slot": found[0]["slot"],
        "resource": GPU,
    }
    assert holders(state) == found


def test_a_pod_that_has_gone_has_no_series_at_the_next_scrape() -> None:
    seen = slots.inventory(slots.time_sliced(2), hardware.gpu(0, "GPU-a"))
    state = held(seen, ("p1", ["GPU-a::0"]), ("p2", ["GPU-a::1"]))
    for at_s in (2, 4):
        state = ledger.listed(state, listing(("p2", ["GPU-a::1"])), at_s * SECOND).state
    assert [each["pod"] for each in holders(state)] == ["p2"]


def test_a_slot_that_was_just_handed_out_names_nobody() -> None:
    """Identity is never guessed: until List has said who came, the slot only counts as granted."""
    seen = slots.inventory(slots.time_sliced(2), hardware.gpu(0, "GPU-a"))
    state = ledger.allocated(slots.state_of(seen), GPU, ["GPU-a::0"], SECOND).state
    assert holders(state) == []
    assert by_state(state)["granted"] == 1


def test_two_pods_that_one_list_names_for_a_slot_are_not_chosen_between() -> None:
    seen = slots.inventory(slots.time_sliced(2), hardware.gpu(0, "GPU-a"))
    state = held(seen, ("p1", ["GPU-a::0"]), ("p2", ["GPU-a::0"]))
    assert holders(state) == []


def test_u087_ids_of_every_form_are_parsed() -> None:
    """U087: `::` on GPU and MIG UUIDs, and MIG devices named as drivers before R470 did."""
    legacy = "MIG-GPU-a/7/0"
    assert slot_ids.device_of("GPU-a::3") == "GPU-a"
    assert slot_ids.device_of("MIG-0::1") == "MIG-0"
    assert slot_ids.device_of(f"{legacy}::2") == legacy
    assert slot_ids.legacy_instance(legacy) == ("GPU-a", 7, 0)
    assert slot_ids.legacy_instance("MIG-5f0c8b3e-0000-0000-0000-000000000000") is None
    state = held(slots.inventory(MIXED, hardware.gpu(0, "GPU-a")), ("p", [f"{legacy}::2"]))
    (found,) = holders(state)
    assert (found["uuid"], found["parent"], found["slot"]) == (legacy, "GPU-a", f"{legacy}::2")


def test_u089_by_mig_uuid_and_by_gpu_and_instance_the_same_pod() -> None:
    """U089: 2 x 3g.20gb, a pod on one; the empty one has none. DCGM knows (GPU, GPU_I_ID)."""
    seen = slots.inventory(MIXED, cut())
    state = held(seen, ("p", ["MIG-1"]), resource="nvidia.com/mig-3g.20gb")
    by_uuid = {each["uuid"]: each["pod"] for each in holders(state)}
    assert by_uuid == {"MIG-1": "p"}
    places = {
        (each.labels["parent"], each.labels["gpu_instance"]): each.labels["uuid"]
        for each in advertiser.samples(seen)
        if each.instrument is catalogue.MIG_INSTANCE_INFO
    }
    assert {place: by_uuid.get(uuid) for place, uuid in places.items()} == {
        ("GPU-a", "1"): None,
        ("GPU-a", "2"): "p",
    }


def by_state(state: State) -> dict[str, float]:
    """Slots of `nvidia.com/gpu` by state."""
    return {
        each.labels["state"]: each.value
        for each in shown(state)
        if each.instrument is catalogue.SLOTS and each.labels["resource"] == GPU
    }


def test_every_state_has_a_series_also_where_no_slot_is_in_it() -> None:
    """A series that comes and goes would leave gaps in sums and rates."""
    seen = slots.inventory(slots.time_sliced(4), hardware.gpu(0, "GPU-a"))
    assert by_state(held(seen, ("p1", ["GPU-a::0"]))) == {
        "free": 3,
        "granted": 0,
        "held": 1,
        "retiring": 0,
        "unhealthy": 0,
        "lost": 0,
    }


def test_memory_counted_in_mib_does_not_make_a_series_of_each_unit() -> None:
    """A container with thousands of units of one device is one series; one with few has each."""
    seen = slots.inventory(slots.time_sliced(4000), hardware.gpu(0, "GPU-a"))
    many = [f"GPU-a::{number}" for number in range(3000)]
    found = holders(held(seen, ("many", many), ("few", ["GPU-a::3998", "GPU-a::3999"])))
    assert sorted((each["pod"], each["slot"]) for each in found) == [
        ("few", "GPU-a::3998"),
        ("few", "GPU-a::3999"),
        ("many", ""),
    ]


def test_before_the_first_ledger_there_is_nothing_to_say() -> None:
    assert list(measures.samples(None)) == []
