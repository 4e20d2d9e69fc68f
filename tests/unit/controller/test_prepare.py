"""The controller's part of a change, step by step; `tests/properties` interleaves the steps."""

from __future__ import annotations

import dataclasses

import pytest

from services.reconfigurer.controller import components, cordon, eviction, prepare
from services.reconfigurer.controller.attempt import Attempt, Policy
from services.reconfigurer.controller.eviction import Answer
from services.reconfigurer.controller.prepare import Stage
from shared.contract import names
from shared.contract.generation import Generation
from shared.contract.messages import Phase
from tests.support import changing_node
from tests.support.changing_node import DCGM, World

BRIEF = Policy(timeout_s=30.0)


def holding(policy: Policy = BRIEF, pods: tuple[int, ...] = (2, 2)) -> tuple[World, Attempt]:
    """A node whose hold stands and is acknowledged, looked at by a process that has just come."""
    made = changing_node.world(policy, pods=pods)
    attempt = Attempt()
    for _ in range(20):
        attempt = changing_node.go_on(made, attempt)
        made.wait(0.5)
        if made.view().held:
            return made, Attempt()
    raise AssertionError("there is no hold")


def test_cordon_and_pause_come_first_and_together() -> None:
    """One patch, so that no half of it is ever without its annotation."""
    made = changing_node.world(BRIEF)
    made.agent()
    step = prepare.decide(made.view(), Attempt())
    assert step.patch.unschedulable
    assert step.patch.labels == {DCGM: names.PAUSED}
    assert set(step.patch.annotations) == {names.CORDON_ANNOTATION, names.PAUSED_ANNOTATION}
    assert step.prepared is None


def test_a_pod_on_its_way_to_the_kubelet_is_waited_for() -> None:
    """Bound before the cordon was seen: it is admitted before anything is withheld."""
    made = changing_node.world(BRIEF, pods=())
    made.bind()
    attempt = Attempt()
    for _ in range(8):
        attempt = changing_node.go_on(made, attempt)
        made.wait(0.5)
    assert made.intent.prepared_for is None
    made.admit(made.pods[0])
    attempt = changing_node.go_on(made, attempt)
    assert made.intent.prepared_for == made.intent.stamp.generation


def test_pods_of_paused_components_are_waited_for() -> None:
    """They hold NVML until they have gone."""
    made = changing_node.world(BRIEF, pods=())
    made.bind()
    dcgm = dataclasses.replace(
        made.pods[0].pod, resources=frozenset(), selector=frozenset({DCGM}), phase="Running"
    )
    made.pods[0].pod = dcgm
    attempt = Attempt()
    for _ in range(8):
        attempt = changing_node.go_on(made, attempt)
        made.wait(0.5)
    assert made.intent.prepared_for is None
    step = prepare.decide(made.view(), attempt)
    assert dcgm.key in step.waits


@pytest.mark.parametrize("policy", [cordon.Policy.BRIEF, cordon.Policy.WHOLE])
def test_a_brief_cordon_ends_when_the_kubelet_has_reported_the_hold(
    policy: cordon.Policy,
) -> None:
    """Until then the scheduler counts on devices that are withheld; a whole one goes on."""
    made, attempt = holding(dataclasses.replace(BRIEF, cordon=policy))
    step = prepare.decide(made.view(), attempt)
    assert step.patch.unschedulable is None
    made.tick()
    step = prepare.decide(made.view(), step.attempt)
    assert step.patch.unschedulable is (False if policy is cordon.Policy.BRIEF else None)


def test_never_cordon_is_never() -> None:
    """The components are paused all the same."""
    made, _ = holding(dataclasses.replace(BRIEF, cordon=cordon.Policy.NEVER))
    assert not made.node.unschedulable
    assert components.paused(made.node.annotations) == {DCGM: "true"}


def test_after_the_end_the_cordon_waits_for_the_new_devices_to_be_reported() -> None:
    """U107: capacity that the scheduler believes in is never more than there is."""
    made, attempt = holding(dataclasses.replace(BRIEF, cordon=cordon.Policy.WHOLE))
    made.tick()
    for running in list(made.pods):
        made.end(running)
    for _ in range(3):
        attempt = changing_node.go_on(made, attempt)
    assert made.progress
    assert made.progress.phase is Phase.SUCCESS
    step = prepare.decide(made.view(), attempt)
    assert step.patch.unschedulable is None
    made.now += prepare.SHOWN_S
    late = prepare.decide(made.view(), step.attempt)
    assert late.patch.unschedulable is False, "a kubelet that is dead holds nothing up"
    made.tick()
    step = prepare.decide(made.view(), step.attempt)
    assert step.patch.unschedulable is False


def test_success_is_not_compared_with_devices_that_are_to_go() -> None:
    """The advertiser may be a moment behind the agent; then the old devices look complete."""
    made, _ = holding(pods=())
    step = prepare.decide(made.view(), Attempt())
    made.release()
    made.say(Phase.SUCCESS)
    made.tick()
    assert "advertiser" in prepare.differences(made.view(), step.attempt)
    made.devices = (changing_node.STAYS, changing_node.COMES)
    assert not prepare.differences(made.view(), step.attempt)


def test_success_waits_until_nothing_is_withheld_any_more() -> None:
    """Until then the new devices are counted, and nobody gets them."""
    made, _ = holding(pods=())
    step = prepare.decide(made.view(), Attempt())
    made.devices = (changing_node.STAYS, changing_node.COMES)
    made.say(Phase.SUCCESS)
    made.tick()
    assert "withheld" in prepare.differences(made.view(), step.attempt)
    made.release()
    made.tick()
    assert not prepare.differences(made.view(), step.attempt)


def test_a_pod_is_noted_on_the_node_before_it_is_evicted() -> None:
    """A successor knows which of that name has been the holder."""
    made, attempt = holding()
    step = prepare.decide(made.view(), attempt)
    assert {pod.key for pod in step.evict} == {each.pod.key for each in made.pods}
    made.obey(step, made.view(), acts=1)
    assert eviction.noted(made.node.annotations) == {
        each.pod.key: each.pod.uid for each in made.pods
    }


def test_u067_pods_that_do_not_end_in_time_fail_the_change_and_all_is_as_before() -> None:
    """DrainTimeout with their names; components and cordon are given back; tried again later."""
    made, attempt = holding()
    step = prepare.decide(made.view(), attempt)
    made.obey(step, made.view())
    made.now += BRIEF.timeout_s + 1
    seen = made.view()
    step = prepare.decide(seen, step.attempt)
    assert step.prepared is False
    assert step.attempt.failure
    assert step.attempt.failure.reason == prepare.GivenUp.TIMEOUT
    for running in made.pods:
        assert running.pod.key in step.attempt.failure.sentence
    made.obey(step, seen)
    attempt = step.attempt
    for _ in range(6):
        attempt = changing_node.go_on(made, attempt)
        made.wait(5.0)
    assert made.clean
    assert made.progress
    assert made.progress.phase is Phase.PREPARE, "the agent asks, and nobody is disturbed yet"
    assert attempt.failure
    changing_node.settle(made, attempt)
    assert made.clean
    assert changing_node.COMES in made.devices, "and it is tried again"


@pytest.mark.parametrize("due", [False, True])
def test_whoever_could_not_be_evicted_is_named_with_the_reason(due: bool) -> None:
    """While it waits, while it is asked for again, and in what the change fails with."""
    made, attempt = holding()
    pods = [running.pod for running in made.pods]
    at = made.now + (0.0 if due else 5.0)
    later = {pods[0].uid: eviction.Later(at, "could not be evicted: a webhook says no")}
    step = prepare.decide(dataclasses.replace(made.view(), later=later), attempt)
    assert step.waits == f"{pods[0].key} could not be evicted: a webhook says no"
    assert step.blockers == (
        (pods[0].key, "could not be evicted: a webhook says no"),
        (pods[1].key, "is being evicted"),
    )
    assert step.evict == tuple(pods if due else pods[1:])
    made.now += BRIEF.timeout_s + 1
    late = dataclasses.replace(made.view(), later=later)
    failure = prepare.decide(late, step.attempt).attempt.failure
    assert failure
    assert f"{pods[0].key} (could not be evicted: a webhook says no)" in failure.sentence


def test_waits_between_tries_grow() -> None:
    """A drain that cannot succeed does not evict and cordon over and over."""
    made, attempt = holding()
    attempt = prepare.decide(made.view(), attempt).attempt
    waits = []
    for _ in range(4):
        attempt = dataclasses.replace(attempt, holding=made.now - BRIEF.timeout_s - 1)
        attempt = prepare.decide(made.view(), attempt).attempt
        waits.append(attempt.retry_at - made.now)
    assert waits == sorted(waits)
    assert waits[3] == 8 * waits[0]


@pytest.mark.parametrize(
    ("owner", "policy"),
    [
        ("", dataclasses.replace(BRIEF, bare_pods=Answer.FAIL)),
        ("DaemonSet", dataclasses.replace(BRIEF, daemon_set_pods=Answer.FAIL)),
    ],
)
def test_protected_pods_fail_the_change_at_once(owner: str, policy: Policy) -> None:
    """By policy; nobody is evicted."""
    made, attempt = holding(policy)
    made.pods[0].pod = dataclasses.replace(made.pods[0].pod, owner=owner)
    step = prepare.decide(made.view(), attempt)
    assert step.attempt.failure
    assert step.attempt.failure.reason == prepare.GivenUp.REFUSED
    assert made.pods[0].pod.key in step.attempt.failure.sentence
    assert not step.evict
    assert step.prepared is False


def test_holders_that_have_ended_are_told_to_the_agent() -> None:
    """It must not wait for them; whoever runs still is evicted, and waited for."""
    made, attempt = holding()
    over, runs = made.pods
    over.pod = dataclasses.replace(over.pod, phase="Succeeded")
    step = prepare.decide(made.view(), attempt)
    assert step.ended == (over.pod.key,)
    assert step.evict == (runs.pod,)
    assert prepare.decide(made.view(), Attempt()).ended == step.ended, "a successor says so too"
    made.now += BRIEF.timeout_s + 1
    failure = prepare.decide(made.view(), step.attempt).attempt.failure
    assert failure
    assert runs.pod.key in failure.sentence
    assert over.pod.key not in failure.sentence


def test_an_answer_to_an_older_attempt_is_none_to_this_one() -> None:
    """The agent has begun again under the same generation."""
    made, attempt = holding()
    made.order += 1
    made.say(Phase.PREPARE)
    assert not made.view().prepared
    assert not made.view().held
    assert prepare.stage_of(made.view(), attempt) is Stage.PREPARING


def test_a_node_that_may_not_start_is_left_alone() -> None:
    """`maxUnavailable`: nothing is cordoned for a change that has to wait its turn."""
    made = changing_node.world(BRIEF)
    made.agent()
    waiting = dataclasses.replace(made.view(), allowed=False)
    step = prepare.decide(waiting, Attempt())
    assert not step.patch
    assert step.prepared is None
    assert step.rest


def test_a_newer_wish_finds_the_node_prepared_by_the_older_one() -> None:
    """The cordon stays ours, the new generation is prepared for anew, none is evicted for both."""
    made, attempt = holding()
    newer = dataclasses.replace(made.intent.stamp, generation=Generation(2, 2))
    made.intent = dataclasses.replace(made.intent, stamp=newer, prepared_for=None)
    assert prepare.stage_of(made.view(), attempt) is Stage.BUSY
    changing_node.settle(made, attempt)
    assert made.clean


def test_a_holder_of_the_next_attempt_may_have_the_name_of_one_that_was_evicted() -> None:
    """A StatefulSet's pod that came back between two labels: it is in the way now, and goes."""
    made, attempt = holding(pods=(2,))
    attempt = changing_node.go_on(made, attempt)
    first = made.pods[0].pod
    assert first.ending
    made.end(made.pods[0])
    newer = dataclasses.replace(made.intent.stamp, generation=Generation(2, 2))
    made.intent = dataclasses.replace(made.intent, stamp=newer, prepared_for=None)
    made.agent()
    made.bind()
    again = dataclasses.replace(made.pods[0].pod, key=first.key, uid="another")
    made.pods[0].pod = again
    made.admit(made.pods[0], 2)
    changing_node.settle(made, attempt, rounds=20)
    assert made.clean
    assert changing_node.COMES in made.devices


@pytest.mark.parametrize(
    ("phase", "silent_s", "stage"),
    [
        (Phase.APPLYING, 600.0, Stage.BUSY),
        (Phase.REBOOTING, 600.0, Stage.BUSY),
        (Phase.APPLYING, prepare.SILENT_S + 1, Stage.OVER),
        (Phase.HOLDING, BRIEF.timeout_s + prepare.LOST_S + 1, Stage.OVER),
        (None, 5.0, Stage.BUSY),
        (None, prepare.LOST_S + 1, Stage.OVER),
    ],
)
def test_an_agent_that_is_gone_for_good_leaves_no_cordon_behind(
    phase: Phase | None, silent_s: float, stage: Stage
) -> None:
    """As long as it may come back, nothing is taken from under its hands."""
    made, attempt = holding()
    if phase:
        made.say(phase)
    view = dataclasses.replace(made.view(), silent_s=silent_s)
    view = view if phase else dataclasses.replace(view, progress=None)
    assert prepare.stage_of(view, attempt) is stage


def test_a_cordon_that_somebody_lifted_is_not_ours_any_more() -> None:
    """U071: one look lets go of it; a cordon after that is the administrator's."""
    made, attempt = holding()
    made.node = dataclasses.replace(made.node, unschedulable=False)
    step = prepare.decide(made.view(), attempt)
    made.obey(step, made.view())
    made.admins = True
    made.node = dataclasses.replace(made.node, unschedulable=True)
    changing_node.settle(made, step.attempt)
    assert made.clean
    assert made.node.unschedulable
