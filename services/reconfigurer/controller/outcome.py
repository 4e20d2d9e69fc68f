"""What is wanted, what the agent says and what the kubelet shows → `mig.config.state`. Pure.

Success is said only once the node's allocatable devices are those of the new layout: until then a
scheduler would count on what is not there.
"""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass

from services.reconfigurer.controller import layouts, nodes, saying
from services.reconfigurer.controller.attempt import Failure
from shared.contract import names
from shared.contract.generation import Generation
from shared.contract.messages import Intent, Phase, Progress
from shared.geometry.config import Row

DRIFT_AFTER_S = 60.0  # a kubelet that has not reported the new devices by then will not


class State(enum.StrEnum):
    """Values of the label, as NVIDIA's mig-manager has them."""

    PENDING = "pending"
    REBOOTING = "rebooting"
    SUCCESS = "success"
    FAILED = "failed"


class Going(enum.StrEnum):
    """One word for where a change is that has not ended; a failure's is the agent's or ours."""

    WAITING = "Waiting"  # for the agent
    QUEUED = "Queued"  # other nodes change
    PREPARING = "Preparing"
    DRAINING = "Draining"
    APPLYING = "Applying"
    REBOOTING = "Rebooting"
    REPORTING = "Reporting"  # the kubelet has yet to


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Where a node's wanted layout stands."""

    state: State
    reason: str
    sentence: str
    generation: Generation
    order: int = 0
    layout: tuple[str, tuple[Row, ...]] = ("", ())

    @property
    def wish(self) -> nodes.Wanted:
        """Label and annotations that say it."""
        return nodes.Wanted(
            labels={names.MIG_STATE_LABEL: self.state},
            annotations={
                names.MIG_REASON_ANNOTATION: f"{self.reason}: {self.sentence}",
                names.MIG_GENERATION_ANNOTATION: str(self.generation),
            },
        )

    def say(self, about: saying.About) -> tuple[saying.Say, ...]:
        """The Event of an end; once for each attempt, whoever leads."""
        if self.state is State.SUCCESS:
            reason = names.MIG_CONFIG_APPLIED
        elif self.state is State.FAILED:
            reason = self.reason
        else:
            return ()
        topic = f"{self.generation} {self.order} {self.state} {self.reason}"
        warning = self.state is State.FAILED
        return (
            saying.Say(
                about=about, reason=reason, message=self.sentence, warning=warning, topic=topic
            ),
        )


def of(
    wanted: Intent,
    progress: Progress | None,
    failure: Failure | None,
    differs: str | None,
    waited_s: float,
) -> Outcome | None:
    """Say where the layout stands; None where no layout is wanted.

    Args:
        wanted: the newest intent.
        progress: what the agent said last, of whatever generation.
        failure: why the controller gave the newest attempt up.
        differs: how allocatable devices and ledger differ, empty if they don't, None before a look.
        waited_s: since when they are looked at after the agent's success.
    """
    order = progress.order if progress else 0

    def said(state: State, reason: str, sentence: str) -> Outcome:
        return Outcome(
            state=state,
            reason=reason,
            sentence=sentence,
            generation=wanted.stamp.generation,
            order=order,
            layout=(wanted.mig_config, wanted.mig_rows),
        )

    if wanted.mig_problems:
        reason = layouts.refusal(wanted.mig_problems)
        sentences = "; ".join(problem.sentence() for problem in wanted.mig_problems)
        return said(State.FAILED, reason, sentences)
    if not wanted.mig_config:
        return None
    if failure and not _went_on(wanted, progress):
        return said(State.FAILED, failure.reason, failure.sentence)
    if progress is None or progress.stamp.generation != wanted.stamp.generation:
        return said(State.PENDING, Going.WAITING, "the node's agent has not taken it up yet")
    if progress.phase is Phase.SUCCESS:
        return said(*_after_success(wanted, differs, waited_s))
    state = _STATES.get(progress.phase, State.PENDING)
    return said(state, progress.reason or _REASONS[progress.phase], progress.sentence)


def goes_on(former: Outcome, found: Outcome | None, wanted: Intent) -> bool:
    """Whether a success still stands while agent and kubelet take up a generation like it.

    A new generation that only changes the sharing must not make the state flap.
    """
    return (
        former.state is State.SUCCESS
        and former.layout == (wanted.mig_config, wanted.mig_rows)
        and found is not None
        and found.reason in {Going.WAITING, Going.REPORTING}
    )


def in_line(found: Outcome, sentence: str) -> Outcome:
    """What is said of a node that is ready to be prepared while it has to wait for others."""
    if found.reason != Going.PREPARING:
        return found
    return dataclasses.replace(found, reason=Going.QUEUED, sentence=sentence)


def refused(wanted: Intent, progress: Progress | None) -> bool:
    """Whether nobody has been disturbed for a layout that fails: it cannot be."""
    newest = progress is not None and progress.stamp.generation == wanted.stamp.generation
    if progress is not None and newest and progress.phase is Phase.FAILED:
        return progress.reason == names.MIG_REFUSED
    return bool(wanted.mig_problems)


def told(node: nodes.Node, state: State, generation: Generation) -> bool:
    """Whether the node's labels say this state of this generation."""
    noted = node.annotations.get(names.MIG_GENERATION_ANNOTATION)
    return node.labels.get(names.MIG_STATE_LABEL) == state and noted == str(generation)


def forget(node: nodes.Node) -> nodes.Wanted:
    """Take back what was said, where no layout is wanted any more."""
    if names.MIG_GENERATION_ANNOTATION not in node.annotations:
        return nodes.Wanted()
    return nodes.Wanted(
        labels={names.MIG_STATE_LABEL: None},
        annotations={names.MIG_REASON_ANNOTATION: None, names.MIG_GENERATION_ANNOTATION: None},
    )


def _went_on(wanted: Intent, progress: Progress | None) -> bool:
    """Whether the agent was already past what we gave up waiting for."""
    return (
        progress is not None
        and progress.stamp.generation == wanted.stamp.generation
        and progress.phase in {Phase.APPLYING, Phase.REBOOTING, Phase.SUCCESS}
    )


def _after_success(wanted: Intent, differs: str | None, waited_s: float) -> tuple[State, str, str]:
    name = wanted.mig_config
    if differs is None or (differs and waited_s < DRIFT_AFTER_S):
        why = f": {differs}" if differs else ""
        return State.PENDING, Going.REPORTING, f"the kubelet has not reported {name} yet{why}"
    if differs:
        sentence = f"{name} stands on the GPUs, but the kubelet reports {differs}"
        return State.FAILED, names.CAPACITY_DRIFT, f"{sentence}: restart it if that stays"
    return State.SUCCESS, names.MIG_CONFIG_APPLIED, f"{name} is applied and reported"


_STATES = {Phase.REBOOTING: State.REBOOTING, Phase.FAILED: State.FAILED}
_REASONS = {
    Phase.IDLE: Going.WAITING.value,
    Phase.PREPARE: Going.PREPARING.value,
    Phase.HOLDING: Going.DRAINING.value,
    Phase.APPLYING: Going.APPLYING.value,
    Phase.REBOOTING: Going.REBOOTING.value,
    Phase.FAILED: names.MIG_CONFIG_FAILED,
}
