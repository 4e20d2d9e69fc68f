"""What each slot counts as, and what the kubelet sees of it."""

from __future__ import annotations

import dataclasses

import pytest

from services.allocator import account, ledger, standing
from services.allocator.ledger import State
from shared.contract.generation import Generation
from shared.contract.messages import Hold, Inventory, SlotCounts
from shared.domain.gpu import HealthState
from shared.domain.sharing import MigStrategy, SharingConfig
from shared.domain.slots import SlotState
from tests.support import hardware, slots
from tests.support.slots import GPU, SECOND, listing

A, B = slots.named(0, "a"), slots.named(1, "b")
A0, A1, A2, A3 = (f"GPU-a::{number}" for number in range(4))


def with_holders(seen: Inventory, *ids: str, unresolved: tuple[str, ...] = ()) -> State:
    """Slots held by pod p, and others granted to nobody known."""
    state = ledger.listed(slots.state_of(seen), listing(("p", ids)), SECOND).state
    return ledger.allocated(state, GPU, unresolved, 2 * SECOND).state if unresolved else state


def listed(state: State, resource: str = GPU) -> dict[str, bool]:
    """Ids that the kubelet sees, and whether they are healthy."""
    return {slot.id: not slot.trouble for slot in standing.derive(state).listed(resource)}


def counts(state: State, gpu: str, resource: str = GPU) -> SlotCounts:
    written = account.write(hardware.stamp(), state, standing.derive(state))
    return next(
        row.counts for row in written.counts if (row.gpu_uuid, row.resource) == (gpu, resource)
    )


def state_of_slot(state: State, slot: str, resource: str = GPU) -> SlotState:
    return standing.derive(state).slots[resource][slot].state


def test_slots_are_free_granted_or_held() -> None:
    """Each slot counts once."""
    state = with_holders(slots.inventory(slots.time_sliced(4), A), A0, unresolved=(A1,))
    assert counts(state, "GPU-a") == SlotCounts(free=2, granted=1, held=1)
    assert list(listed(state).values()) == [True] * 4


def test_a_shrink_keeps_held_slots_and_lists_the_new_number() -> None:
    """U011: x4 to x2 with slots 0 and 3 held lists those two; nobody is put out."""
    state = with_holders(slots.inventory(slots.time_sliced(4), A), A0, A3)
    after = ledger.devices(state, slots.inventory(slots.time_sliced(2), A), confirmed=True).state
    assert listed(after) == {A0: True, A3: True}
    assert counts(after, "GPU-a") == SlotCounts(held=2)


def test_slots_held_beyond_the_new_number_retire() -> None:
    """They leave the list, stay in the ledger, and are free of it when their holders end."""
    state = with_holders(slots.inventory(slots.time_sliced(4), A), A0, A1, A2)
    after = ledger.devices(state, slots.inventory(slots.time_sliced(2), A), confirmed=True).state
    assert listed(after) == {A0: True, A1: True}
    assert counts(after, "GPU-a") == SlotCounts(held=2, retiring=1)
    freed = ledger.listed(after, (), 10 * SECOND).state
    freed = ledger.listed(freed, (), 20 * SECOND).state
    assert counts(freed, "GPU-a") == SlotCounts(free=2)


def test_u053_a_sick_gpu_takes_all_its_slots_and_no_other() -> None:
    """U053: every replica is unhealthy in one list, holders stay in the ledger."""
    state = with_holders(slots.inventory(slots.time_sliced(4), A, B), A0)
    seen = slots.inventory(slots.time_sliced(4), slots.sick(A), B)
    after = ledger.devices(state, seen, confirmed=True).state
    assert [healthy for slot, healthy in listed(after).items() if slot.startswith("GPU-a")] == [
        False
    ] * 4
    assert all(healthy for slot, healthy in listed(after).items() if slot.startswith("GPU-b"))
    assert counts(after, "GPU-a") == SlotCounts(held=1, unhealthy=3)
    assert "XID 79" in standing.derive(after).slots[GPU][A0].trouble


def test_u043_totals_add_up_with_a_sick_gpu() -> None:
    """U043: total = free + granted + held + retiring + unhealthy for every GPU."""
    gpus = (A, slots.sick(B), slots.named(2, "c"))
    state = with_holders(slots.inventory(slots.time_sliced(3), *gpus), A0)
    assert [counts(state, gpu.uuid).total for gpu in gpus] == [3, 3, 3]
    assert counts(state, "GPU-b").unhealthy == 3


def test_a_gpu_off_the_bus_stays_in_the_total_and_is_listed_as_unhealthy() -> None:
    """Nothing of it is handed out; who was on it stays a holder, as the kubelet counts him."""
    seen = slots.inventory(slots.time_sliced(2), slots.sick(A, HealthState.LOST), B)
    state = with_holders(seen, A0)
    assert counts(state, "GPU-a") == SlotCounts(held=1, unhealthy=1)
    assert listed(state) == {A0: False, A1: False, "GPU-b::0": True, "GPU-b::1": True}


def test_u093_rows_on_gpus_that_are_gone_are_lost() -> None:
    """U093: new UUIDs are offered as new, the old rows are lost with their holders."""
    state = with_holders(slots.inventory(SharingConfig(), A, B), "GPU-a", "GPU-b")
    seen = slots.inventory(SharingConfig(), slots.named(0, "c"), slots.named(1, "d"))
    after = ledger.devices(state, seen, confirmed=True).state
    assert listed(after) == {"GPU-c": True, "GPU-d": True}
    assert state_of_slot(after, "GPU-a") is SlotState.LOST
    rows = account.write(hardware.stamp(), after, standing.derive(after)).rows
    assert [(row.slot, row.holder) for row in rows] == [
        ("GPU-a", slots.holder("p")),
        ("GPU-b", slots.holder("p")),
    ]


def test_before_any_inventory_holders_are_held_not_lost() -> None:
    """A ledger that has not seen the hardware does not say that it is gone."""
    state = ledger.listed(State(), listing(("p", [A0])), SECOND).state
    assert state_of_slot(state, A0) is SlotState.HELD


def test_a_renamed_resource_lists_nothing_under_its_old_name() -> None:
    """The new name gets what the old name's holders leave; those retire."""
    state = with_holders(slots.inventory(slots.time_sliced(4), A), A0)
    renamed = slots.inventory(slots.time_sliced(4, rename=f"{GPU}.shared"), A)
    after = ledger.devices(state, renamed, confirmed=True).state
    assert listed(after) == {}
    assert len(listed(after, f"{GPU}.shared")) == 3
    assert state_of_slot(after, A0) is SlotState.RETIRING


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        pytest.param([], {A2: True, A3: True}, id="idle slots leave the list"),
        pytest.param(
            [A1], {A0: False, A1: False, A2: True, A3: True}, id="unhealthy while one is held"
        ),
    ],
)
def test_withheld_slots(held: list[str], expected: dict[str, bool]) -> None:
    """Withheld slots are never handed out, and leave the list when nobody has one of them."""
    state = with_holders(slots.inventory(slots.time_sliced(4), A), *held)
    hold = Hold(stamp=hardware.stamp(Generation(1, 2)), slots=(A0, A1), reason="MIG change")
    after = ledger.withheld(state, hold, SECOND).state
    assert listed(after) == expected
    assert standing.derive(after).slots[GPU][A0].trouble == "it is withheld: MIG change"
    assert counts(after, "GPU-a").unhealthy == 2 - len(held)


def test_a_mig_device_shares_its_parents_trouble_and_not_its_siblings() -> None:
    """What strikes a GPU strikes its MIG devices; what strikes one of them strikes no other."""
    parent = hardware.mig_gpu(0, 2)
    config = SharingConfig(mig_strategy=MigStrategy.SINGLE)
    one = slots.sick(parent.mig_devices[0])
    alone = dataclasses.replace(parent, mig_devices=(one, parent.mig_devices[1]))
    assert listed(slots.state_of(slots.inventory(config, alone))) == {
        "MIG-0-0": False,
        "MIG-0-1": True,
    }
    whole = slots.state_of(slots.inventory(config, slots.sick(parent)))
    assert listed(whole) == {"MIG-0-0": False, "MIG-0-1": False}


def test_after_a_boot_mig_devices_wait_for_a_new_look() -> None:
    """Whole GPUs are served from the snapshot; MIG instances never survive a boot."""
    config = SharingConfig(mig_strategy=MigStrategy.MIXED)
    seen = slots.inventory(config, hardware.mig_gpu(0, 1), B)
    state = ledger.devices(State(), seen, confirmed=False).state
    now = standing.derive(state)
    assert [slot.trouble != "" for slot in now.listed("nvidia.com/mig-1g.10gb")] == [True]
    assert [slot.trouble for slot in now.listed(GPU)] == [""]
    confirmed = ledger.devices(state, seen, confirmed=True).state
    after = standing.derive(confirmed).listed("nvidia.com/mig-1g.10gb")
    assert [slot.trouble for slot in after] == [""]


def test_equal_states_give_equal_ledgers() -> None:
    """The order in which events came does not show."""
    seen = slots.inventory(slots.time_sliced(4), A, B)
    one = with_holders(seen, A0, "GPU-b::0", unresolved=(A1,))
    other = with_holders(seen, "GPU-b::0", A0, unresolved=(A1,))
    stamp = hardware.stamp()
    assert account.write(stamp, one, standing.derive(one)) == account.write(
        stamp, other, standing.derive(other)
    )
