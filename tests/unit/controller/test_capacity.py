"""When a node's allocatable devices are what the ledger says."""

from __future__ import annotations

import dataclasses

from services.reconfigurer.controller import capacity
from shared.contract.messages import DeviceCounts, Inventory, Ledger, LedgerRow, SlotCounts
from shared.domain.gpu import Health, HealthState
from shared.domain.slots import SlotState
from tests.support import hardware

GPU = "nvidia.com/gpu"


def ledger(*rows: tuple[str, SlotState], **counts: int) -> Ledger:
    """One GPU's slots."""
    made = tuple(
        LedgerRow(slot=f"GPU-0::{number}", resource=GPU, gpu_uuid=uuid, state=state)
        for number, (uuid, state) in enumerate(rows)
    )
    device = DeviceCounts(gpu_uuid="GPU-0", resource=GPU, counts=SlotCounts(**counts))
    return Ledger(stamp=hardware.stamp(), rows=made, counts=(device,))


def test_withheld_slots_count_not_whether_idle_or_taken() -> None:
    """Idle ones are off the list, taken ones are listed as unhealthy."""
    shown = ledger(("GPU-0", SlotState.HELD), ("GPU-0", SlotState.HELD), held=2, free=2)
    assert capacity.expected(shown) == {GPU: 4}
    assert capacity.expected(shown, withheld=frozenset({"GPU-0::0"})) == {GPU: 3}


def test_slots_that_are_held_on_a_sick_gpu_do_not_count() -> None:
    """The kubelet calls them unhealthy."""
    sick = Health(state=HealthState.SICK, reason="XID 79")
    inventory = Inventory(
        stamp=hardware.stamp(),
        driver_version="",
        cuda_version=(13, 0),
        gpus=(dataclasses.replace(hardware.gpu(0), health=sick),),
        shares=(),
    )
    shown = ledger(("GPU-0", SlotState.HELD), held=1, unhealthy=3)
    assert capacity.expected(shown, inventory) == {GPU: 0}


def test_retiring_slots_are_not_listed() -> None:
    assert capacity.expected(ledger(("GPU-0", SlotState.RETIRING), retiring=1, free=2)) == {GPU: 2}


def test_the_hold_shows_once_nothing_more_is_offered_than_there_is() -> None:
    assert not capacity.shows_hold({GPU: 4}, {GPU: 3})
    assert capacity.shows_hold({GPU: 3}, {GPU: 3})
    assert capacity.shows_hold({}, {GPU: 0})


def test_u065_what_a_former_name_leaves_behind_is_a_difference() -> None:
    """`gpu: 2` next to the MIG resources; other plugins' resources are not ours."""
    wanted = {"nvidia.com/mig-1g.10gb": 7}
    shown = {"nvidia.com/mig-1g.10gb": 7, "nvidia.com/gpu": 2, "nvidia.com/rdma": 8}
    assert capacity.differing(shown, wanted) == "nvidia.com/gpu: 2 instead of 0"
    assert not capacity.differing({**shown, "nvidia.com/gpu": 0}, wanted)
    assert "mig-1g.10gb: 0 instead of 7" in capacity.differing({}, wanted)
