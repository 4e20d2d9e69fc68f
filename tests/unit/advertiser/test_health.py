"""A verdict covers one device with all its slots, and no other."""

from __future__ import annotations

import dataclasses

import pytest

from services.advertiser import health
from shared.domain.gpu import Gpu, Hardware, Health, HealthState
from tests.support.hardware import gpu, hardware, mig_gpu

NOW = 1_000


def verdicts_after(node: Hardware, uuid: str, xid: int, instance: int | None = None) -> set[str]:
    found = health.after_xid({}, node, gpu_uuid=uuid, xid=xid, instance=instance, now=NOW)
    return set(found)


@pytest.mark.parametrize("xid", sorted(health.APPLICATION_XIDS))
def test_an_error_of_the_application_is_no_verdict_on_the_gpu(xid: int) -> None:
    assert verdicts_after(hardware(gpu(0)), "GPU-0", xid) == set()


@pytest.mark.parametrize("xid", [48, 62, 74, 79, 94, 95, 119, 140, 999])
def test_every_other_xid_is_a_verdict_on_its_gpu_and_no_other(xid: int) -> None:
    assert verdicts_after(hardware(gpu(0), gpu(1)), "GPU-0", xid) == {"GPU-0"}


def test_u049_an_instance_event_is_a_verdict_on_that_instance_only() -> None:
    assert verdicts_after(hardware(mig_gpu(0, 3)), "GPU-0", 94, instance=8) == {"MIG-0-1"}


def test_u049_an_event_on_the_whole_gpu_takes_all_its_instances_out() -> None:
    node = hardware(mig_gpu(0, 3))
    found = health.after_xid({}, node, gpu_uuid="GPU-0", xid=79, instance=None, now=NOW)
    seen = health.judged(node.gpus[0], found, None, NOW)
    assert {device.health.state for device in seen.mig_devices} == {HealthState.SICK}


def test_an_event_on_an_instance_that_is_gone_is_judged_on_the_whole_gpu() -> None:
    assert verdicts_after(hardware(mig_gpu(0, 1)), "GPU-0", 94, instance=99) == {"GPU-0"}


def test_the_first_fatal_xid_of_a_gpu_keeps_its_date_and_number() -> None:
    node = hardware(gpu(0))
    first = health.after_xid({}, node, gpu_uuid="GPU-0", xid=48, instance=None, now=1)
    second = health.after_xid(first, node, gpu_uuid="GPU-0", xid=79, instance=None, now=2)
    assert (second["GPU-0"].xid, second["GPU-0"].since_ns) == (48, 1)


def lost(one: Gpu) -> Gpu:
    return dataclasses.replace(one, health=Health(state=HealthState.LOST, reason="gone"))


def test_a_lost_gpu_keeps_the_date_of_its_loss_from_look_to_look() -> None:
    first = health.judged(lost(gpu(0)), {}, gpu(0), now=5)
    again = health.judged(lost(gpu(0)), {}, first, now=9)
    assert (first.health.since_ns, again.health.since_ns) == (5, 5)


def test_a_lost_gpu_that_answers_again_is_healthy_at_once() -> None:
    assert health.judged(gpu(0), {}, lost(gpu(0)), NOW).health.usable


def test_u047_a_verdict_is_read_back_from_an_earlier_inventory() -> None:
    node = hardware(gpu(0), mig_gpu(1, 2))
    found = health.after_xid({}, node, gpu_uuid="GPU-1", xid=94, instance=7, now=NOW)
    published = [health.judged(each, found, None, NOW) for each in node.gpus]
    assert dict(health.verdicts_in(published)) == dict(found)


def test_a_lost_gpu_tells_the_xid_that_came_with_the_loss_and_a_restart_remembers_it() -> None:
    node = hardware(gpu(0))
    found = health.after_xid({}, node, gpu_uuid="GPU-0", xid=79, instance=None, now=3)
    seen = health.judged(lost(gpu(0)), found, gpu(0), now=5)
    assert (seen.health.state, seen.health.xid) == (HealthState.LOST, 79)
    assert seen.health.reason == "XID 79; gone"
    assert health.verdicts_in((seen,)) == found
