"""How a story is played: order, deadlines, `for`, `never`, and what is said of a failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from services.rehearsal import engine
from services.rehearsal.outcome import Outcome, Result
from services.rehearsal.stage import Observation, StageError
from services.rehearsal.story import (
    About,
    Act,
    Action,
    Condition,
    Delete,
    Expect,
    Mark,
    Never,
    Step,
    Story,
    Wait,
)
from shared.runtime import clock


@dataclass
class Script:
    """A stage whose one number changes at given times, and which refuses one pod's deletion."""

    changes: Mapping[float, int]
    began: float = 0.0
    acts: list[Act] = field(default_factory=list)
    marks: int = 0
    remembered: int = 0

    async def act(self, action: Act) -> None:
        if action == Delete(pod="default/gone"):
            raise StageError("there is no pod default/gone")
        self.acts.append(action)

    async def observe(self, condition: Condition, moments: Mapping[str, int]) -> Observation:
        passed = clock.loop_time() - self.began
        value = next((n for at, n in sorted(self.changes.items(), reverse=True) if at <= passed), 0)
        return Observation({"rejections": value}, {})

    def mark(self) -> None:
        self.marks += 1

    async def remember(self) -> None:
        self.remembered += 1


def rejections(count: int) -> tuple[Condition, ...]:
    """The node's number is `count`."""
    return (Condition(about=About.NODE, name="n", wants=(("rejections", count),)),)


async def played(changes: Mapping[float, int], *actions: Action) -> tuple[Outcome, Script]:
    """Play actions on a stage whose number changes so."""
    steps = tuple(
        Step(line=number, kind=type(action).__name__.lower(), action=action)
        for number, action in enumerate(actions, start=1)
    )
    stage = Script(changes, clock.loop_time())
    told: list[Result] = []
    story = Story(file="s.yaml", nodes=(), config_maps={}, values={}, steps=steps)
    outcome = await engine.play(story, stage, told.append)
    assert [result for result in outcome.results if result not in told] == []
    return outcome, stage


def last(outcome: Outcome) -> dict[str, Any]:
    """The last result as JSON has it."""
    form: dict[str, Any] = outcome.form()["steps"][-1]
    return form


async def test_what_is_seen_in_time_is_ok() -> None:
    """An expectation waits for the change and says how long it took."""
    outcome, _ = await played({0.1: 8}, Expect(conditions=rejections(8), within_s=5))
    assert outcome.ok
    assert 0.1 <= outcome.results[0].seconds < 2
    assert last(outcome)["seen"] == {"rejections": 8}


async def test_what_is_not_seen_in_time_is_named_with_what_was_seen() -> None:
    """The failure says expected and observed values, and the story ends there."""
    outcome, stage = await played(
        {0: 4}, Expect(conditions=rejections(8), within_s=0.1), Delete(pod="default/a")
    )
    assert not outcome.ok
    assert last(outcome)["seen"] == {"rejections": 4}
    assert last(outcome)["why"] == "not within 0.1 s: rejections is 4, not 8"
    assert stage.acts == []


async def test_what_does_not_stay_is_refused() -> None:
    """With `for`, a value that is seen and then goes away is a failure."""
    expect = Expect(conditions=rejections(8), within_s=5, for_s=5)
    outcome, _ = await played({0: 8, 0.2: 4}, expect)
    assert not outcome.ok
    assert "but not for 5 s: rejections is 4, not 8" in last(outcome)["why"]


async def test_what_stays_is_ok() -> None:
    """With `for`, the step takes at least that long."""
    outcome, _ = await played({0: 8}, Expect(conditions=rejections(8), for_s=0.2))
    assert outcome.ok
    assert outcome.results[0].seconds >= 0.2


async def test_never_ends_the_story_when_it_is_seen() -> None:
    """A watched condition that comes true fails its own step, whatever is being played."""
    outcome, stage = await played(
        {0.1: 1}, Never(conditions=rejections(1)), Wait(seconds=30), Delete(pod="default/a")
    )
    assert not outcome.ok
    assert outcome.seconds < 10
    assert outcome.results[0].why == "was seen, and must never be"
    assert stage.acts == []


async def test_never_is_looked_at_once_more_at_the_end() -> None:
    """What the last step brings about does not escape."""
    outcome, _ = await played({0: 1}, Never(conditions=rejections(1)))
    assert not outcome.ok


async def test_never_that_is_not_seen_is_ok() -> None:
    """A story with nothing to forbid passes."""
    outcome, _ = await played({0: 2}, Never(conditions=rejections(1)), Wait(seconds=0.1))
    assert outcome.ok


async def test_a_step_that_cannot_be_done_says_why() -> None:
    """The stage's sentence becomes the step's."""
    outcome, _ = await played({}, Delete(pod="default/gone"))
    assert last(outcome)["why"] == "there is no pod default/gone"


async def test_steps_that_act_mark_and_others_do_not() -> None:
    """Counts start anew with each step that acts."""
    outcome, stage = await played(
        {0: 1}, Delete(pod="default/a"), Expect(conditions=rejections(1)), Wait(seconds=0.01)
    )
    assert outcome.ok
    assert stage.marks == 1


async def test_the_hardware_is_remembered_at_the_start_and_at_each_mark() -> None:
    """A mark is no step that acts: counts go on."""
    outcome, stage = await played({0: 1}, Mark(name="here"), Expect(conditions=rejections(1)))
    assert outcome.ok
    assert (stage.remembered, stage.marks) == (2, 0)
