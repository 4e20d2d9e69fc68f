"""Single decisions: what an answer is worth, what is let go, what stays withheld."""

from __future__ import annotations

import dataclasses

import pytest

from services.reconfigurer.agent.memory import Reason, resumed
from shared.contract.messages import MigPolicy, Phase
from shared.nvml.clients import Client
from tests.support.mig_world import SECOND, CrashedError, SimGpu, World

SEVEN = {"1g.10gb": 7}
MIXED = (("1g.10gb", 0), ("1g.10gb", 1), ("2g.20gb", 2), ("3g.40gb", 4))


@pytest.fixture
def world() -> World:
    """GPU 0 in four instances, the largest with a pod; GPU 1 in one that nobody means."""
    world = World()
    made = world.cut(0, *MIXED)
    world.cut(1, ("3g.40gb", 0))
    world.advertise()
    world.allocate_hold()
    world.grant(made[3].devices[0], "big")
    world.account()
    world.want("wanted", SEVEN)
    world.advertise()
    return world


def prepared(world: World) -> None:
    """Up to a hold that the allocator has answered."""
    world.step()
    world.prepare()
    world.step()
    world.allocate_hold()


def test_nothing_is_held_before_the_controller_has_prepared(world: World) -> None:
    """A pod that is bound and not admitted yet would be rejected by a hold."""
    world.step()
    assert world.said is not None
    assert world.said.phase is Phase.PREPARE
    assert [holder.pod for holder in world.said.blockers] == ["big"]
    assert not world.hold.recut


def test_a_preparation_for_an_earlier_attempt_is_none(world: World) -> None:
    """The same generation, another order: what was demanded then is not what is demanded now."""
    world.step()
    world.prepare()
    assert world.intent is not None
    world.intent = dataclasses.replace(world.intent, prepared_order=world.intent.prepared_order - 1)
    world.step()
    assert not world.hold.recut


def test_who_has_ended_is_told_to_the_allocator(world: World) -> None:
    """Before Kubernetes 1.34 it would wait for the kubelet, which lists the pod on."""
    prepared(world)
    (slot,) = world.pods
    world.finish(slot)
    world.step()
    assert world.said is not None
    assert (world.said.phase, [who.pod for who in world.said.blockers]) == (Phase.HOLDING, ["big"])
    world.evict()
    world.step()
    assert world.hold.ended == ("team/big",)
    assert not world.gpus[0].writes, "the ledger does not say so yet"
    world.allocate_hold()
    world.step()
    assert len(world.gpus[0].instances) == 7


def test_who_has_ended_is_known_to_a_newer_generation_of_the_change(world: World) -> None:
    """A new leader has not looked at the pods yet, and the allocator may hear it only now."""
    prepared(world)
    (slot,) = world.pods
    world.finish(slot)
    world.step()
    world.evict()
    world.step()
    world.want_again()
    world.step()
    assert world.hold.ended == ("team/big",)


def test_what_an_answer_to_an_earlier_attempt_says_of_pods_is_not_believed(world: World) -> None:
    """One of that name may run now."""
    prepared(world)
    assert world.intent is not None
    order = world.intent.prepared_order
    world.intent = dataclasses.replace(world.intent, ended=("team/big",), prepared_order=order - 1)
    world.step()
    assert not world.hold.ended


def test_who_ended_before_the_gpu_was_cut_is_not_waited_for_when_it_is_whole_again() -> None:
    """The kubelet lists them on by the GPU's UUID, which is back as soon as MIG is off."""
    world = World()
    world.gpus[0].on = world.gpus[0].pending = False
    world.advertise()
    world.allocate_hold()
    world.grant("GPU-0", "long-over")
    world.finish("GPU-0")
    world.want("wanted", SEVEN)
    assert world.play().phase is Phase.SUCCESS
    world.want("wanted", None)
    assert world.play().phase is Phase.SUCCESS


def test_a_ledger_that_answers_an_earlier_hold_proves_nothing(world: World) -> None:
    """Same generation, and it shows nobody: it was written before this hold was taken in."""
    prepared(world)
    world.pods = {}
    world.account()
    assert world.ledger is not None
    world.ledger = dataclasses.replace(world.ledger, held_order=world.ledger.held_order - 1)
    world.step()
    assert world.said is not None
    assert "the allocator has not withheld" in world.said.sentence
    assert not world.gpus[0].writes
    world.account()
    world.step()
    assert world.gpus[0].writes


def test_the_hold_covers_what_appears_and_leaves_what_stays(world: World) -> None:
    """Devices that stay are named; everything else on the GPU is withheld, also new ones."""
    prepared(world)
    stay = [device for one in world.gpus[0].instances[:2] for device in one.devices]
    assert world.hold.recut == ("GPU-0",)
    assert list(world.hold.kept) == stay
    assert len(world.hold.slots) == 2
    new = world.make(0, "1g.10gb", 6)
    assert new.devices[0] not in world.free()
    assert set(stay) <= set(world.free())


def test_a_hold_lasts_until_the_inventory_shows_what_was_made(world: World) -> None:
    """The allocator would offer what the old inventory shows, and that is gone."""
    prepared(world)
    world.evict()
    world.account()
    world.step()
    assert len(world.gpus[0].instances) == 7
    world.step()
    assert world.hold.recut == ("GPU-0",)
    stay = {device for one in world.gpus[0].instances[:2] for device in one.devices}
    assert stay <= set(world.hold.kept)
    assert not world.hold.release_nvml  # or the advertiser could never look
    world.advertise()
    world.step()
    assert not world.hold.recut


def test_a_preparation_that_is_withdrawn_frees_what_was_held(world: World) -> None:
    """The drain took too long: the former layout serves on, and it is asked for anew."""
    prepared(world)
    former = world.hold.order
    world.withdraw()
    world.step()
    assert world.said is not None
    assert world.said.phase is Phase.PREPARE
    assert world.said.order > former
    assert not world.hold.recut


def test_an_edit_of_the_sharing_text_keeps_what_is_held(world: World) -> None:
    """A new generation of the same layout goes on with the same order, prepared anew."""
    prepared(world)
    former = world.hold
    world.want_again()
    world.advertise()
    world.step()
    assert world.said is not None
    assert world.said.phase is Phase.PREPARE
    assert (world.hold.order, world.hold.recut) == (former.order, former.recut)
    assert world.said.stamp.generation == world.generation
    world.prepare()
    world.evict()
    said = world.play()
    assert said.phase is Phase.SUCCESS


def test_a_gpu_that_nobody_holds_is_cut_without_asking() -> None:
    """Nothing that is there goes and nothing is offered: only the allocator has to answer."""
    world = World(gpus=1)
    world.advertise()
    world.allocate_hold()
    world.want("wanted", SEVEN)
    world.advertise()
    world.step()
    world.allocate_hold()
    world.step()
    assert len(world.gpus[0].instances) == 7
    assert Phase.PREPARE not in [each.phase for each in world.told]


def test_pods_that_do_not_go_end_the_attempt(world: World) -> None:
    """Their names and the end of the wait; the hold is gone, and it is tried again later."""
    prepared(world)
    world.step()
    world.now_ns += world.limits.hold_ns
    world.step()
    assert world.said is not None
    assert (world.said.phase, world.said.reason) == (Phase.FAILED, Reason.HOLD_TIMEOUT)
    assert world.said.until_ns == world.now_ns + world.limits.first_retry_ns
    assert "team/big" in world.said.sentence
    assert not world.hold.recut
    assert not world.gpus[0].writes
    world.withdraw()
    world.now_ns += world.limits.first_retry_ns
    assert world.play().phase is Phase.SUCCESS


def test_pods_are_waited_for_as_long_as_the_policy_says(world: World) -> None:
    """The agent's own limit is for a controller that does not say when it gives up."""
    world.policy = MigPolicy(drain_ns=7200 * SECOND)
    world.want_again()
    world.advertise()
    prepared(world)
    world.step()
    world.now_ns += 7200 * SECOND
    world.step()
    assert world.said is not None
    assert world.said.phase is Phase.HOLDING
    world.now_ns += world.limits.hold_ns
    world.step()
    assert world.said.reason == Reason.HOLD_TIMEOUT


def test_a_gpu_that_cannot_be_brought_back_stays_withheld(world: World) -> None:
    """Neither as wanted nor as before: what stays is served, nothing else of it is."""
    world.pods = {}
    wrote = 0

    def refuse(_gpu: object, _step: object) -> bool:
        nonlocal wrote
        wrote += 1
        return wrote > 1

    world.refuse = refuse
    said = world.play()
    assert (said.phase, said.reason) == (Phase.FAILED, Reason.NVML_FAILED)
    assert "it is withheld" in said.sentence
    assert "before it had" in said.sentence
    assert world.hold.recut == ("GPU-0",)
    kept = {device for one in world.gpus[0].instances[:2] for device in one.devices}
    assert {slot for slot in world.free() if slot.startswith("MIG-")} - {"MIG-5"} == kept
    world.refuse = lambda _gpu, _step: False
    world.now_ns += world.limits.first_retry_ns
    assert world.play().phase is Phase.SUCCESS
    assert not world.hold.recut


def test_what_failed_once_is_planned_anew(world: World) -> None:
    """Another place, another order: only what is still missing is done."""
    world.pods = {}
    refused = iter((False, False, False, True))
    world.refuse = lambda _gpu, _step: next(refused, False)
    assert world.play().phase is Phase.SUCCESS
    applied = [each.step for each in world.told if each.phase is Phase.APPLYING]
    assert len(applied) == 2
    assert "destroy" not in applied[1]


def test_the_label_goes_while_a_gpu_is_half_cut(world: World) -> None:
    """Nothing is wanted any more: it goes back to what it was."""
    world.pods = {}
    for _ in range(8):
        world.advertise()
        world.allocate_hold()
        world.prepare()
        change = world.memory.change
        if change is not None and change.prepared:
            world.crash = lambda where: where.startswith("before create 1g.10gb at 5")
        try:
            world.step()
        except CrashedError:
            break
    world.crash = lambda _where: False
    assert len(world.gpus[0].instances) not in (4, 7)
    world.want("")
    said = world.play()
    assert said.phase is Phase.IDLE
    assert world.layouts()[0] == (True, tuple(sorted(MIXED)))
    assert not world.hold.recut


def test_a_lost_gpu_does_not_keep_the_others(world: World) -> None:
    """The others come to the goal; the state says which one did not, and it follows when back."""
    world.gpus[0].lost = True
    world.want("wanted", SEVEN, {"3g.40gb": 2})
    said = world.play()
    assert (said.phase, said.reason) == (Phase.FAILED, Reason.GPU_UNAVAILABLE)
    assert "GPU 0" in said.sentence
    assert len(world.gpus[1].instances) == 2
    assert not world.gpus[0].writes
    world.gpus[0].lost = False
    assert world.play().phase is Phase.SUCCESS


def test_a_gpu_that_was_lost_before_the_agent_began_is_not_as_it_is_wanted(world: World) -> None:
    """NVML does not list it to a new process; the inventory still tells of it."""
    world.step()
    world.gpus[0].lost = True
    world.gpus[0].listed = False
    world.want("wanted", SEVEN, {"3g.40gb": 2})
    world.memory = resumed(world.memory, world.memory.boot_id)
    said = world.play()
    assert (said.phase, said.reason) == (Phase.FAILED, Reason.GPU_UNAVAILABLE)
    assert "GPU 0" in said.sentence
    assert len(world.gpus[1].instances) == 2
    world.gpus[0].lost, world.gpus[0].listed = False, True
    assert world.play().phase is Phase.SUCCESS


def test_a_lost_gpu_that_was_as_it_is_wanted_is_believed_to_be(world: World) -> None:
    """By the inventory, as by the process that saw it last."""
    world.step()
    world.gpus[0].lost = True
    world.gpus[0].listed = False
    world.want("wanted", {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1})
    assert world.play().phase is Phase.SUCCESS


def test_a_reboot_is_on_disk_before_it_happens_and_happens_once(world: World) -> None:
    """Also where the agent dies between the two."""
    world.policy = MigPolicy(reboot=True)
    world.want("wanted", None)
    world.gpus[0].sticky = True
    world.crash = lambda where: (
        where == "before the act"
        and world.memory.change is not None
        and (world.memory.change.rebooting)
    )
    for _ in range(12):
        world.round()
    assert world.reboots == 0
    assert world.said is not None
    assert world.said.phase is Phase.REBOOTING
    world.crash = lambda _where: False
    world.gpus[0].sticky = True
    world.play()
    assert world.reboots == 1
    assert world.play().phase is Phase.SUCCESS


def test_a_mode_that_somebody_brought_into_force_by_hand_needs_no_boot(world: World) -> None:
    """They have ended the clients and reset the GPU: the rest is made, with no new label."""
    world.gpus[0] = SimGpu(index=0, on=False, pending=False, sticky=True)
    world.pods = {}
    world.want("wanted", SEVEN)
    world.advertise()
    assert world.play().reason == Reason.REBOOT_REQUIRED
    world.now_ns += 7200 * SECOND
    assert world.play().reason == Reason.REBOOT_REQUIRED, "nothing has changed"
    world.gpus[0].on = world.gpus[0].pending = True
    assert world.play().phase is Phase.SUCCESS


def test_a_client_that_is_still_there_postpones_the_next_try(world: World) -> None:
    """Nobody is asked to go for an attempt that must fail again; the next moment is told."""
    world.want("wanted", None)
    world.gpus[0].busy_clients = (Client(7, "dcgm"),)
    assert world.play().reason == Reason.IN_USE
    failure = world.memory.failure
    assert failure is not None
    world.told = []
    world.withdraw()
    world.now_ns += 40 * SECOND
    world.play()
    assert world.memory.failure is not None
    assert world.memory.failure.count == failure.count + 1
    assert [(each.phase, each.until_ns) for each in world.told] == [
        (Phase.FAILED, world.memory.failure.retry_ns)
    ]
    world.gpus[0].busy_clients = ()
    world.now_ns += 700 * SECOND
    assert world.play().phase is Phase.SUCCESS
