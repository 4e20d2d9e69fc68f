"""Where a wanted MIG layout stands, as label, annotation, Event and condition say it."""

from __future__ import annotations

import dataclasses

import pytest

from services.reconfigurer.controller import conditions, configured, layouts, nodes, outcome
from services.reconfigurer.controller.attempt import Failure
from services.reconfigurer.controller.outcome import Outcome, State
from shared.contract import names
from shared.contract.generation import Generation
from shared.contract.messages import ConfigState, Intent, Inventory, Phase, Progress
from shared.domain.errors import Problem
from tests.support import hardware

NEWEST = Generation(2, 5)
NODE = nodes.Node(name="node-a")
WANTED = dataclasses.replace(hardware.intent(generation=NEWEST), mig_config="all-balanced")
NOW = "2026-01-01T00:00:00.000000Z"


def progress(phase: Phase, generation: Generation = NEWEST, reason: str = "") -> Progress:
    return Progress(
        stamp=hardware.stamp(generation), phase=phase, sentence="as it is", reason=reason, order=3
    )


def found(
    said: Progress | None,
    *,
    wanted: Intent = WANTED,
    failure: Failure | None = None,
    differs: str | None = None,
    waited_s: float = 0.0,
) -> Outcome:
    result = outcome.of(wanted, said, failure, differs, waited_s)
    assert result
    return result


def test_a_node_without_a_wanted_layout_has_no_state() -> None:
    """And what was said before is taken back, if it was said by us."""
    assert outcome.of(hardware.intent(), progress(Phase.SUCCESS), None, "", 0.0) is None
    assert outcome.forget(NODE) == nodes.Wanted()
    told = dataclasses.replace(NODE, annotations={names.MIG_GENERATION_ANNOTATION: "2.5"})
    assert outcome.forget(told).labels == {names.MIG_STATE_LABEL: None}


@pytest.mark.parametrize(
    ("phase", "state", "reason"),
    [
        (Phase.PREPARE, State.PENDING, "Preparing"),
        (Phase.HOLDING, State.PENDING, "Draining"),
        (Phase.APPLYING, State.PENDING, "Applying"),
        (Phase.REBOOTING, State.REBOOTING, "Rebooting"),
        (Phase.FAILED, State.FAILED, names.MIG_CONFIG_FAILED),
        (Phase.IDLE, State.PENDING, "Waiting"),
    ],
)
def test_the_agents_phase_is_the_state(phase: Phase, state: State, reason: str) -> None:
    """With mig-manager's words for it."""
    said = found(progress(phase))
    assert (said.state, said.reason) == (state, reason)


def test_the_agents_reason_is_told() -> None:
    """U073, U077: one word in the annotation, before the sentence."""
    said = found(progress(Phase.FAILED, reason="RebootRequired"))
    annotation = said.wish.annotations[names.MIG_REASON_ANNOTATION]
    assert annotation == "RebootRequired: as it is"
    assert said.wish.annotations[names.MIG_GENERATION_ANNOTATION] == "2.5"


def test_an_answer_to_an_older_wish_is_none() -> None:
    """The state is pending until the agent speaks of the newest generation."""
    assert found(progress(Phase.SUCCESS, Generation(2, 4)), differs="").state is State.PENDING
    assert found(None).state is State.PENDING


def test_success_needs_the_kubelets_word() -> None:
    """U065: a leftover count is no success; after a while it is drift, and told so."""
    success = progress(Phase.SUCCESS)
    assert found(success).state is State.PENDING
    waiting = found(success, differs="nvidia.com/gpu: 2 instead of 0")
    assert waiting.state is State.PENDING
    assert "nvidia.com/gpu: 2" in waiting.sentence
    drift = found(success, differs="nvidia.com/gpu: 2 instead of 0", waited_s=61)
    assert (drift.state, drift.reason) == (State.FAILED, names.CAPACITY_DRIFT)
    assert found(success, differs="").state is State.SUCCESS


def test_our_own_failure_counts_before_what_the_agent_says() -> None:
    """It asks again already, while the node is left alone for a while."""
    failure = Failure("DrainTimeout", "pods: default/a")
    said = found(progress(Phase.PREPARE), failure=failure)
    assert (said.state, said.reason, said.sentence) == (
        State.FAILED,
        "DrainTimeout",
        "pods: default/a",
    )


def test_u075_a_refused_name_is_failed_whatever_the_hardware_does() -> None:
    """The last good layout may stand and be fine; it is not what was asked for."""
    refused = layouts.wanted("all-balance", "", None, WANTED)
    wanted = dataclasses.replace(WANTED, mig_problems=refused.problems)
    said = found(progress(Phase.SUCCESS), wanted=wanted, differs="")
    assert (said.state, said.reason) == (State.FAILED, names.CONFIG_NOT_FOUND)
    assert 'did you mean "all-balanced"' in said.sentence


def test_ends_are_told_once_for_each_attempt() -> None:
    """Whoever leads says the same about the same."""
    failed = found(progress(Phase.FAILED, reason="InUse"))
    (say,) = failed.say(NODE.about)
    assert (say.reason, say.warning) == ("InUse", True)
    (again,) = found(progress(Phase.FAILED, reason="InUse")).say(NODE.about)
    assert say.event_name == again.event_name
    later = dataclasses.replace(failed, order=4)
    assert later.say(NODE.about)[0].event_name != say.event_name
    (good,) = found(progress(Phase.SUCCESS), differs="").say(NODE.about)
    assert (good.reason, good.warning) == (names.MIG_CONFIG_APPLIED, False)
    assert not found(None).say(NODE.about)


def test_a_success_stands_while_only_the_sharing_changes() -> None:
    """The state does not flap with every edit of a text."""
    success = found(progress(Phase.SUCCESS), differs="")
    newer = dataclasses.replace(WANTED, stamp=hardware.stamp(Generation(2, 6)))
    waiting = found(progress(Phase.SUCCESS), wanted=newer)
    assert outcome.goes_on(success, waiting, newer)
    other = dataclasses.replace(newer, mig_config="all-disabled")
    assert not outcome.goes_on(success, found(None, wanted=other), other)
    changing = found(progress(Phase.PREPARE, Generation(2, 6)), wanted=newer)
    assert not outcome.goes_on(success, changing, newer)


# ------------------------------------------------------------------------------- conditions


def intent(state: ConfigState, *problems: Problem) -> Intent:
    return dataclasses.replace(hardware.intent(generation=NEWEST), state=state, problems=problems)


IN_TEXT = Problem("sharing.x", 3, 1, "unknown key x")
IN_SELECTION = Problem("data", 0, 0, "there is no key t40")


@pytest.mark.parametrize(
    ("wanted", "status", "reason"),
    [
        (intent(ConfigState.APPLIED), "True", names.CONFIG_APPLIED),
        (intent(ConfigState.REFUSED, IN_TEXT), "False", names.CONFIG_REFUSED),
        (intent(ConfigState.REFUSED, IN_SELECTION), "False", names.CONFIG_NOT_FOUND),
        (intent(ConfigState.UNSHARED, IN_SELECTION), "False", names.CONFIG_NOT_SELECTED),
        (intent(ConfigState.UNSHARED), "True", names.CONFIG_NOT_SELECTED),
    ],
)
def test_the_sharing_text_is_one_condition(wanted: Intent, status: str, reason: str) -> None:
    """With the sentences of the refusal as its message."""
    (shown,) = configured.of(wanted, None, None)
    assert (shown.type, shown.status, shown.reason) == (
        names.CONFIGURED_CONDITION,
        status,
        reason,
    )
    assert all(problem.message in shown.message for problem in wanted.problems)


def test_the_condition_names_the_text_that_is_refused() -> None:
    """Another one may serve meanwhile."""
    wanted = dataclasses.replace(intent(ConfigState.REFUSED, IN_TEXT), refused="sharing/bad")
    (shown,) = configured.of(wanted, None, None)
    assert shown.message == "sharing/bad: sharing.x, line 3, column 1: unknown key x"


def test_what_the_hardware_cannot_do_is_told_too() -> None:
    """The text is fine by itself; the advertiser answers that these GPUs cannot serve it."""
    inventory = Inventory(
        stamp=hardware.stamp(NEWEST),
        driver_version="",
        cuda_version=(13, 0),
        gpus=(),
        shares=(),
        problems=(IN_TEXT,),
    )
    (shown,) = configured.of(intent(ConfigState.APPLIED), inventory, None)
    assert (shown.status, shown.reason) == ("False", names.CONFIG_REFUSED)


@pytest.mark.parametrize(
    ("phase", "status"),
    [(Phase.SUCCESS, "True"), (Phase.FAILED, "False"), (Phase.APPLYING, "Unknown")],
)
def test_the_layout_is_another_condition(phase: Phase, status: str) -> None:
    """Unknown while it changes."""
    _, shown = configured.of(WANTED, None, found(progress(phase), differs=""))
    assert (shown.type, shown.status) == (names.MIG_CONFIGURED_CONDITION, status)


def test_only_conditions_that_differ_are_written() -> None:
    """And one that keeps its side keeps its time; one that is no longer ours goes."""
    good = conditions.Condition("A", "True", "Fine", "all of it")
    other = conditions.Condition("B", "True", "Fine", "")
    standing = {names.CONDITIONS_ANNOTATION: conditions.marks((good, other))}
    assert not conditions.patch(standing, (good, other), NOW)
    (reworded,) = conditions.patch(
        standing, (dataclasses.replace(good, message="nearly"), other), NOW
    )
    assert "lastTransitionTime" not in reworded
    bad = dataclasses.replace(good, status="False")
    (turned,) = conditions.patch(standing, (bad, other), NOW)
    assert turned["lastTransitionTime"] == NOW
    assert conditions.patch(standing, (good,), NOW) == [{"type": "B", "$patch": "delete"}]
    assert len(conditions.patch({}, (good, other), NOW)) == 2
