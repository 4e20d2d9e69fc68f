"""A verdict covers one device with all its slots, and no other; it ends when it should."""

from __future__ import annotations

import dataclasses

import pytest

from services.advertiser import health
from shared.domain.gpu import Gpu, Hardware, Health, HealthState
from shared.domain.health import HealthRecord, HealthRules
from tests.support.hardware import gpu, hardware, mig_gpu

NOW = 1_000
S = 1_000_000_000
NONE = HealthRecord()
ONE = hardware(gpu(0))


def struck(
    record: HealthRecord,
    xid: int,
    now: int = NOW,
    *,
    node: Hardware = ONE,
    uuid: str = "GPU-0",
    instance: int | None = None,
) -> HealthRecord:
    """The record after one XID."""
    return health.after_xid(record, node, gpu_uuid=uuid, xid=xid, instance=instance, now=now)


def verdicts_after(node: Hardware, uuid: str, xid: int, instance: int | None = None) -> set[str]:
    return set(health.standing(struck(NONE, xid, node=node, uuid=uuid, instance=instance)))


@pytest.mark.parametrize("xid", sorted(health.APPLICATION_XIDS))
def test_an_error_of_the_application_is_no_verdict_on_the_gpu(xid: int) -> None:
    assert verdicts_after(ONE, "GPU-0", xid) == set()


@pytest.mark.parametrize("xid", [48, 62, 74, 79, 94, 95, 119, 140, 999])
def test_every_other_xid_is_a_verdict_on_its_gpu_and_no_other(xid: int) -> None:
    assert verdicts_after(hardware(gpu(0), gpu(1)), "GPU-0", xid) == {"GPU-0"}


def test_u049_an_instance_event_is_a_verdict_on_that_instance_only() -> None:
    assert verdicts_after(hardware(mig_gpu(0, 3)), "GPU-0", 94, instance=8) == {"MIG-0-1"}


def test_u049_an_event_on_the_whole_gpu_takes_all_its_instances_out() -> None:
    node = hardware(mig_gpu(0, 3))
    found = health.standing(struck(NONE, 79, node=node))
    seen = health.judged(node.gpus[0], found, None, NOW)
    assert {device.health.state for device in seen.mig_devices} == {HealthState.SICK}


def test_an_event_on_an_instance_that_is_gone_is_judged_on_the_whole_gpu() -> None:
    assert verdicts_after(hardware(mig_gpu(0, 1)), "GPU-0", 94, instance=99) == {"GPU-0"}


def test_the_first_fatal_xid_of_a_gpu_keeps_its_date_and_number() -> None:
    verdict = health.standing(struck(struck(NONE, 48, 1), 79, 2))["GPU-0"]
    assert (verdict.xid, verdict.since_ns) == (48, 1)


def test_an_xid_that_asks_for_a_reset_is_told_before_one_that_does_not() -> None:
    verdict = health.standing(struck(struck(NONE, 94, 1), 79, 2))["GPU-0"]
    assert (verdict.xid, verdict.since_ns) == (79, 1)
    assert "reset the GPU" in verdict.reason


def lost(one: Gpu) -> Gpu:
    return dataclasses.replace(one, health=Health(state=HealthState.LOST, reason="gone"))


def test_a_lost_gpu_keeps_the_date_of_its_loss_from_look_to_look() -> None:
    first = health.judged(lost(gpu(0)), {}, gpu(0), now=5)
    again = health.judged(lost(gpu(0)), {}, first, now=9)
    assert (first.health.since_ns, again.health.since_ns) == (5, 5)


def test_a_lost_gpu_that_answers_again_is_healthy_at_once() -> None:
    assert health.judged(gpu(0), {}, lost(gpu(0)), NOW).health.usable


def test_a_lost_gpu_tells_the_xid_that_came_with_the_loss() -> None:
    found = health.standing(struck(NONE, 79, 3))
    seen = health.judged(lost(gpu(0)), found, gpu(0), now=5)
    assert (seen.health.state, seen.health.xid) == (HealthState.LOST, 79)
    assert (seen.health.reason, seen.health.since_ns) == ("XID 79; gone", 3)


# --------------------------------------------------------------------------- recovery


def looked(record: HealthRecord, *seconds: float, node: Hardware = ONE) -> HealthRecord:
    """The record after a look at each of these seconds."""
    for second in seconds:
        record = health.after_look(record, node, int(second * S))
    return record


def is_out(record: HealthRecord) -> bool:
    return "GPU-0" in health.standing(record)


def silent() -> Hardware:
    verdict = Health(state=HealthState.SILENT, reason="does not answer")
    return hardware(dataclasses.replace(gpu(0), health=verdict))


def test_u047_a_gpu_is_served_again_when_it_has_been_well_for_a_minute() -> None:
    """XID 94 at 0 s, NVML answers from 30 s on: out until 90 s."""
    record = looked(struck(NONE, 94, 0), 0.5, 29.5, node=silent())
    record = looked(record, 30, 60, 89)
    assert is_out(record)
    assert not is_out(looked(record, 90))


def test_another_fatal_xid_begins_the_minute_anew() -> None:
    record = looked(struck(looked(struck(NONE, 94, S), 2, 50), 94, 50 * S), 109)
    assert is_out(record)
    assert not is_out(looked(record, 110))


def test_u047_a_restart_keeps_the_verdict_and_begins_the_minute_anew() -> None:
    """What was wrong while nobody looked is not known."""
    record = health.remembered(looked(struck(NONE, 94, S), 50), same_boot=True)
    record = looked(record, 70, 129)
    assert is_out(record)
    assert not is_out(looked(record, 130))


def test_a_boot_forgets_verdicts_and_keeps_rules_and_clearing() -> None:
    rules = HealthRules(ignore=(63,))
    record = struck(health.under(NONE, rules, "once"), 94)
    kept = HealthRecord(rules=rules, cleared="once")
    assert health.remembered(record, same_boot=False) == kept


def flapping(cycles: int) -> HealthRecord:
    """A GPU that fell sick so often, each time recovered for long, and is sick now."""
    record, second = NONE, 1
    for _ in range(cycles):
        record = looked(struck(record, 94, second * S), second + 1, second + 62)
        second += 100
    return record


def test_u047_a_gpu_that_falls_sick_three_times_in_ten_minutes_stays_out() -> None:
    assert not is_out(flapping(2))
    record = looked(flapping(3), 1_000, 100_000)
    assert is_out(record)
    assert "time and again" in health.standing(record)["GPU-0"].reason


def test_a_flapper_goes_on_being_one_after_a_restart_of_the_service() -> None:
    """Also where it is well at that moment."""
    record = health.remembered(flapping(2), same_boot=True)
    assert is_out(looked(struck(record, 94, 300 * S), 301, 10_000))


def test_falls_of_long_ago_do_not_make_a_flapper() -> None:
    record = looked(flapping(2), 800)
    assert record == NONE
    assert not is_out(looked(struck(record, 94, 801 * S), 802, 870))


def test_u047_an_operator_clears_a_flapper_once() -> None:
    """The same annotation goes on standing and clears nothing more."""
    rules = HealthRules()
    record = health.under(flapping(3), rules, "after the card was swapped")
    assert not is_out(record)
    record = health.under(struck(record, 94, 400 * S), rules, "after the card was swapped")
    assert is_out(record)
    assert not is_out(looked(record, 401, 461))


def test_the_annotation_that_is_taken_away_clears_nothing_and_may_be_set_again() -> None:
    rules = HealthRules()
    record = health.under(struck(health.under(NONE, rules, "now"), 48), rules, "")
    assert is_out(record)
    assert not is_out(health.under(record, rules, "now"))


@pytest.mark.parametrize("xid", sorted(health.RESET_XIDS - health.APPLICATION_XIDS))
def test_time_alone_does_not_bring_back_a_gpu_that_is_to_be_reset(xid: int) -> None:
    """Every pod on it would fail, one after another."""
    assert is_out(looked(struck(NONE, xid), 1, 100, 100_000))


def test_a_gpu_that_was_lost_and_answers_again_has_been_reset() -> None:
    record = looked(struck(NONE, 79), 1, 30, node=hardware(lost(gpu(0))))
    assert is_out(looked(record, 31, 89))
    assert not is_out(looked(record, 31, 90))


def test_a_gpu_that_was_only_silent_has_not_been_reset() -> None:
    assert is_out(looked(looked(struck(NONE, 79), 1, node=silent()), 2, 100_000))


def test_a_mig_device_that_was_destroyed_takes_its_verdict_with_it() -> None:
    node = hardware(mig_gpu(0, 2))
    record = struck(NONE, 95, node=node, instance=8)
    assert set(health.standing(looked(record, 1, node=node))) == {"MIG-0-1"}
    assert looked(record, 2, node=hardware(mig_gpu(0, 1))) == NONE


@pytest.mark.parametrize(
    ("rules", "xid", "sick"),
    [
        (HealthRules(ignore=(94,)), 94, False),
        (HealthRules(ignore=(94,)), 95, True),
        (HealthRules(fatal=(31,)), 31, True),
        (HealthRules(fatal=(31,)), 13, False),
    ],
)
def test_the_text_says_which_xids_count(rules: HealthRules, xid: int, *, sick: bool) -> None:
    assert is_out(struck(health.under(NONE, rules, ""), xid)) is sick


def test_a_verdict_of_an_xid_that_is_ignored_from_now_on_ends() -> None:
    assert not is_out(health.under(struck(NONE, 48), HealthRules(ignore=(48,)), ""))


def test_the_text_says_after_how_long_and_whether_at_all() -> None:
    soon = struck(health.under(NONE, HealthRules(recover_after_s=2), ""), 94, S)
    assert not is_out(looked(soon, 1, 3))
    never = struck(health.under(NONE, HealthRules(recover_after_s=None), ""), 94, S)
    assert is_out(looked(never, 1, 1_000_000))
