"""What is said about GPUs that fall sick and come back, and to whom."""

from __future__ import annotations

import dataclasses

from services.reconfigurer.controller import health, saying
from shared.contract import names
from shared.contract.messages import Inventory, Ledger, LedgerRow, Stamp
from shared.domain.gpu import HEALTHY, Gpu, Health, HealthState, MigDevice
from shared.domain.slots import Holder, SlotState, slot_id

NODE = saying.About(kind="Node", name="gpu-a", uid="u1")
STAMP = Stamp(node="gpu-a", writer="test")
SICK = Health(state=HealthState.SICK, reason="XID 79: reboot the node", xid=79, since_ns=5)


def gpu(index: int, verdict: Health = HEALTHY, mig: tuple[MigDevice, ...] = ()) -> Gpu:
    return Gpu(
        index=index,
        uuid=f"GPU-{index}",
        model="NVIDIA A100-SXM4-80GB",
        minor=index,
        memory_mib=81920,
        pci_bus_id=f"0000:0{index}:00.0",
        pci_device=0x20B210DE,
        compute_capability=(8, 0),
        mig_devices=mig,
        health=verdict,
    )


def mig_device(verdict: Health) -> MigDevice:
    return MigDevice(
        index=0,
        uuid="MIG-1",
        profile="1g.10gb",
        gpu_instance=7,
        compute_instance=0,
        start=0,
        size=1,
        memory_mib=9728,
        multiprocessors=14,
        gpu_slices=1,
        compute_slices=1,
        health=verdict,
    )


def inventory(*gpus: Gpu) -> Inventory:
    return Inventory(
        stamp=STAMP, driver_version="580.1", cuda_version=(13, 0), gpus=gpus, shares=()
    )


def ledger(*held: tuple[str, str]) -> Ledger:
    """Slots by GPU UUID and pod."""
    rows = tuple(
        LedgerRow(
            slot=slot_id(uuid, number),
            resource="nvidia.com/gpu",
            gpu_uuid=uuid,
            state=SlotState.HELD,
            holder=Holder("team", pod, "main"),
        )
        for number, (uuid, pod) in enumerate(held)
    )
    return Ledger(stamp=STAMP, rows=rows, counts=())


def test_a_sick_gpu_is_told_on_its_node_and_on_its_holders_and_no_other() -> None:
    """The node's Event names XID, GPU and holders; each pod on that GPU gets its own."""
    held = ledger(("GPU-0", "a"), ("GPU-0", "b"), ("GPU-1", "c"))
    said = list(health.unhealthy(NODE, inventory(gpu(0, SICK), gpu(1)), held))
    assert [say.about.name for say in said] == ["gpu-a", "a", "b"]
    assert {say.reason for say in said} == {names.GPU_UNHEALTHY}
    for words in ("GPU 0 (GPU-0)", "XID 79", "team/a", "team/b"):
        assert words in said[0].message
    assert "team/c" not in said[0].message
    assert "GPU-0" in said[1].message


def test_a_pod_with_two_slots_of_it_is_told_once() -> None:
    """One Event a pod, whatever it holds."""
    held = ledger(("GPU-0", "a"), ("GPU-0", "a"))
    said = list(health.unhealthy(NODE, inventory(gpu(0, SICK)), held))
    assert [say.about.name for say in said] == ["gpu-a", "a"]


def test_the_same_verdict_has_the_same_topic_and_a_later_one_another() -> None:
    """So that one change is one Event, for ever."""
    first, again = (
        next(health.unhealthy(NODE, inventory(gpu(0, SICK)), held))
        for held in (None, ledger(("GPU-0", "a")))
    )
    assert first.event_name == again.event_name
    relapse = dataclasses.replace(SICK, since_ns=9)
    later = next(health.unhealthy(NODE, inventory(gpu(0, relapse)), None))
    assert later.event_name != first.event_name


def test_a_sick_mig_device_is_told_by_itself() -> None:
    """The GPU around it is well."""
    said = list(health.unhealthy(NODE, inventory(gpu(0, mig=(mig_device(SICK),))), None))
    assert len(said) == 1
    assert "MIG device 0:0 1g.10gb (MIG-1)" in said[0].message


def test_a_gpu_that_comes_back_is_told_once_on_its_node() -> None:
    """Only what was withheld before can recover."""
    before, after = inventory(gpu(0, SICK), gpu(1)), inventory(gpu(0), gpu(1))
    (said,) = health.recovered(NODE, before, after)
    assert said.reason == names.GPU_RECOVERED
    assert "GPU 0" in said.message
    assert f"after XID {SICK.xid}" in said.message
    assert not list(health.recovered(NODE, after, after))
    assert not list(health.unhealthy(NODE, after, None))
