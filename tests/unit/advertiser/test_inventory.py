"""What is published: only what changed, under the newest generation, never less careful."""

from __future__ import annotations

import dataclasses

from services.advertiser import health, inventory
from shared.contract.generation import Generation
from shared.contract.messages import Intent, Inventory
from shared.domain.gpu import Hardware, HealthState
from shared.domain.sharing import UNSHARED, MigStrategy, SharedResource
from tests.support.hardware import gpu, hardware, intent, mig_gpu, stamp, time_sliced

NODE = hardware(gpu(0), gpu(1))
FIRST, SECOND = Generation(1, 1), Generation(1, 2)


def published(node: Hardware, wanted: Intent | None, state: inventory.State) -> Inventory | None:
    return inventory.after_look(state, node, wanted, stamp(), now=7)


def served(node: Hardware, wanted: Intent) -> inventory.State:
    """The state after the first inventory of a node."""
    first = published(node, wanted, inventory.State())
    assert first is not None
    return inventory.State(published=first)


def with_xid(
    state: inventory.State, node: Hardware, xid: int, *, instance: int | None = None
) -> inventory.State:
    """The state after an XID of the first GPU."""
    record = health.after_xid(
        state.health, node, gpu_uuid="GPU-0", xid=xid, instance=instance, now=5
    )
    return dataclasses.replace(state, health=record)


def replicas(content: Inventory | None) -> dict[str, int]:
    assert content is not None
    return {share.uuid: share.replicas for share in content.shares}


def test_the_first_look_says_what_each_gpu_is_to_offer_and_by_which_generation() -> None:
    content = published(NODE, intent(time_sliced(4), FIRST), inventory.State())
    assert replicas(content) == {"GPU-0": 4, "GPU-1": 4}
    assert content is not None
    assert content.stamp.generation == FIRST


def test_hardware_and_intent_that_have_not_changed_publish_nothing() -> None:
    wanted = intent(time_sliced(4), FIRST)
    assert published(NODE, wanted, served(NODE, wanted)) is None


def test_a_new_intent_publishes_its_generation_even_where_the_shares_stay() -> None:
    state = served(NODE, intent(time_sliced(4), FIRST))
    content = published(NODE, intent(time_sliced(4), SECOND), state)
    assert content is not None
    assert content.stamp.generation == SECOND


def test_a_node_that_never_had_an_intent_offers_nothing_yet() -> None:
    assert replicas(published(NODE, None, inventory.State())) == {}


def test_a_restart_without_the_bus_goes_on_with_the_shares_and_generation_of_before() -> None:
    before = served(NODE, intent(time_sliced(4), FIRST)).published
    again = published(NODE, None, inventory.restored(before, same_boot=True))
    assert before is not None
    assert again is not None
    assert (again.shares, again.stamp.generation) == (before.shares, FIRST)
    assert published(NODE, None, inventory.State(published=again)) is None


def test_sharing_that_does_not_fit_the_hardware_is_explained_and_the_former_goes_on() -> None:
    state = served(NODE, intent(time_sliced(4), FIRST))
    entry = SharedResource(name="nvidia.com/gpu", replicas=2, devices=("7",))
    wrong = dataclasses.replace(time_sliced(2), resources=(entry,))
    content = published(NODE, intent(wrong, SECOND), state)
    assert replicas(content) == {"GPU-0": 4, "GPU-1": 4}
    assert content is not None
    assert "7" in content.problems[0].sentence()
    assert content.problems[0].path == "sharing.timeSlicing.resources[0].devices[0]"


def test_a_sick_gpu_keeps_its_shares_and_the_others_stay_healthy() -> None:
    wanted = intent(time_sliced(4), FIRST)
    state = served(NODE, wanted)
    content = published(NODE, wanted, with_xid(state, NODE, 79))
    assert replicas(content) == {"GPU-0": 4, "GPU-1": 4}
    assert content is not None
    assert [each.health.state for each in content.gpus] == [HealthState.SICK, HealthState.HEALTHY]


def test_a_gpu_that_nvml_no_longer_lists_stays_as_lost_with_its_share() -> None:
    wanted = intent(time_sliced(4), FIRST)
    content = published(hardware(gpu(1)), wanted, served(NODE, wanted))
    assert content is not None
    assert [each.health.state for each in content.gpus] == [HealthState.LOST, HealthState.HEALTHY]
    assert content.gpus[0].health.since_ns == 7


def test_u093_gpus_with_new_uuids_in_the_same_places_replace_the_old_ones() -> None:
    wanted = intent(time_sliced(2), FIRST)
    swapped = hardware(gpu(0, "GPU-c"), gpu(1, "GPU-d"))
    content = published(swapped, wanted, served(NODE, wanted))
    assert content is not None
    assert replicas(content) == {"GPU-c": 2, "GPU-d": 2}
    assert [gpu.uuid for gpu in content.gpus] == ["GPU-c", "GPU-d"]


def test_while_the_driver_is_away_every_known_gpu_is_lost() -> None:
    state = served(NODE, intent(time_sliced(4), FIRST))
    seen = inventory.without_driver(state, "no NVML")
    assert seen is not None
    assert {each.health.state for each in seen.gpus} == {HealthState.LOST}
    assert inventory.without_driver(inventory.State(), "no NVML") is None


def test_verdicts_of_another_boot_are_forgotten_and_those_of_this_boot_are_not() -> None:
    wanted = intent(time_sliced(4), FIRST)
    ill = published(NODE, wanted, with_xid(served(NODE, wanted), NODE, 48))
    for same_boot, withheld in ((True, {"GPU-0"}), (False, set())):
        state = inventory.restored(ill, same_boot=same_boot)
        assert set(health.standing(state.health)) == withheld


def test_a_gpu_that_was_taken_out_while_the_node_was_down_is_gone_and_not_lost() -> None:
    before = served(NODE, intent(time_sliced(4), FIRST)).published
    content = published(hardware(gpu(1)), None, inventory.restored(before, same_boot=False))
    assert content is not None
    assert [each.uuid for each in content.gpus] == ["GPU-1"]
    assert replicas(content) == {"GPU-1": 4}


def test_mig_devices_that_no_boot_leaves_are_offered_no_longer() -> None:
    mixed = dataclasses.replace(UNSHARED, mig_strategy=MigStrategy.MIXED)
    before = served(hardware(mig_gpu(0, 2)), intent(mixed, FIRST)).published
    state = inventory.restored(before, same_boot=False)
    assert replicas(before) == {"MIG-0-0": 1, "MIG-0-1": 1}
    assert replicas(published(hardware(mig_gpu(0, 0)), None, state)) == {}


def test_after_a_boot_nothing_is_said_of_gpus_before_nvml_says_that_they_are_there() -> None:
    before = served(NODE, intent(time_sliced(4), FIRST)).published
    assert inventory.without_driver(inventory.restored(before, same_boot=False), "no NVML") is None


def test_u053_one_fact_tells_of_one_gpu_whose_health_changed_however_it_is_cut() -> None:
    node = hardware(mig_gpu(0, 3), gpu(1))
    wanted = intent(time_sliced(4), FIRST)
    state = served(node, wanted)
    after = published(node, wanted, with_xid(state, node, 79))
    assert after is not None
    (fact,) = inventory.health_facts(state.published, after, now=7)
    assert fact.sentence.startswith("GPU-0 is sick: XID 79")


def test_a_fact_about_one_mig_instance_names_that_instance() -> None:
    node = hardware(mig_gpu(0, 3))
    wanted = intent(generation=FIRST)
    state = served(node, wanted)
    after = published(node, wanted, with_xid(state, node, 94, instance=8))
    assert after is not None
    facts = inventory.health_facts(state.published, after, now=7)
    assert [fact.sentence.partition(" is ")[0] for fact in facts] == ["MIG-0-1"]
