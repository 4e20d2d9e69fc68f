"""`mig.config.state`: of whom it speaks, in which order of what is known."""

from __future__ import annotations

import dataclasses

import pytest

from services.reconfigurer.controller import outcome
from services.reconfigurer.controller.attempt import Failure
from services.reconfigurer.controller.outcome import State
from shared.contract.generation import Generation
from shared.contract.messages import ConfigState, Intent, Phase, Progress, Source, Stamp
from shared.domain.errors import Problem
from shared.domain.sharing import UNSHARED, SourceKind

STAMP = Stamp(node="n", writer="x/0.1.0/1", generation=Generation(1, 2))
OLDER = dataclasses.replace(STAMP, generation=Generation(1, 1))
WANTED = Intent(
    stamp=STAMP,
    sharing=UNSHARED,
    source=Source(kind=SourceKind.NONE),
    state=ConfigState.UNSHARED,
    mig_config="halves",
)
GIVEN_UP = Failure("DrainTimeout", "ml/a did not go")


def progress(phase: Phase, *, stamp: Stamp = STAMP, reason: str = "") -> Progress:
    """What the agent says."""
    return Progress(stamp=stamp, phase=phase, sentence="the agent's", reason=reason, order=7)


def told(
    said: Progress | None,
    *,
    wanted: Intent = WANTED,
    failure: Failure | None = None,
    differs: str | None = "",
    waited_s: float = 0.0,
) -> tuple[str, str]:
    """State and reason."""
    found = outcome.of(wanted, said, failure, differs, waited_s)
    assert found is not None
    return found.state.value, found.reason


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param(None, ("pending", "Waiting"), id="no agent"),
        pytest.param(progress(Phase.SUCCESS, stamp=OLDER), ("pending", "Waiting"), id="older"),
        pytest.param(progress(Phase.PREPARE), ("pending", "Preparing"), id="prepare"),
        pytest.param(progress(Phase.HOLDING), ("pending", "Draining"), id="holding"),
        pytest.param(progress(Phase.APPLYING), ("pending", "Applying"), id="applying"),
        pytest.param(progress(Phase.REBOOTING), ("rebooting", "Rebooting"), id="rebooting"),
        pytest.param(progress(Phase.FAILED, reason="InUse"), ("failed", "InUse"), id="failed"),
        pytest.param(progress(Phase.SUCCESS), ("success", "MigConfigApplied"), id="success"),
    ],
)
def test_the_agent_is_believed_about_the_newest_wish(
    said: Progress | None, expected: tuple[str, str]
) -> None:
    """Its phase becomes one of the four states that other programs know."""
    assert told(said) == expected


@pytest.mark.parametrize(
    ("differs", "waited_s", "expected"),
    [
        pytest.param(None, 0, ("pending", "Reporting"), id="not looked at yet"),
        pytest.param("2, not 7", 10, ("pending", "Reporting"), id="late"),
        pytest.param("2, not 7", 61, ("failed", "CapacityDrift"), id="never"),
    ],
)
def test_success_waits_for_the_kubelet(
    differs: str | None, waited_s: float, expected: tuple[str, str]
) -> None:
    """Until allocatable devices are those of the layout, nobody may count on them."""
    assert told(progress(Phase.SUCCESS), differs=differs, waited_s=waited_s) == expected


@pytest.mark.parametrize("phase", [Phase.PREPARE, Phase.HOLDING])
def test_an_attempt_that_was_given_up_has_failed(phase: Phase) -> None:
    """With the reason why, until the agent says more than that it waits."""
    assert told(progress(phase), failure=GIVEN_UP) == ("failed", "DrainTimeout")


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        (Phase.APPLYING, State.PENDING),
        (Phase.REBOOTING, State.REBOOTING),
        (Phase.SUCCESS, State.SUCCESS),
    ],
)
def test_an_agent_that_went_on_is_believed_though_we_had_given_up(
    phase: Phase, state: State
) -> None:
    """It had its hold before it heard of that; what it has made counts."""
    assert told(progress(phase), failure=GIVEN_UP)[0] == state


def test_a_refused_wish_has_failed_whatever_stands() -> None:
    """The former layout goes on, and the label says that another is wanted."""
    refused = dataclasses.replace(WANTED, mig_problems=(Problem("", 0, 0, "no such layout"),))
    assert told(progress(Phase.SUCCESS), wanted=refused)[0] == "failed"


def test_a_node_of_which_no_layout_is_wanted_has_no_state() -> None:
    """Nothing is said of it."""
    wanted = dataclasses.replace(WANTED, mig_config="")
    assert outcome.of(wanted, progress(Phase.IDLE), None, None, 0.0) is None
