"""Plays a story step by step on a stage and says what was seen.

It stops at the first step that was not as expected: what follows would only repeat it. Conditions
of `never` are watched beside the steps, by a task of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from services.rehearsal import matching
from services.rehearsal.outcome import Outcome, Result
from services.rehearsal.stage import Observation, Stage, StageError
from services.rehearsal.story import (
    NAMED,
    About,
    Condition,
    Expect,
    Mark,
    Never,
    Say,
    Step,
    Story,
    Wait,
    plain,
)
from shared.runtime import clock

LOOK_S = 0.02  # between two looks at what is in this process
ASK_S = 0.2  # between two looks that ask the bus
ASKED = (About.TRACE, About.BUS)

Tell = Callable[[Result], None]


async def play(story: Story, stage: Stage, tell: Tell) -> Outcome:
    """Play the story; `tell` hears each result as it comes."""
    began = clock.loop_time()
    player = _Player(stage, tell)
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(player.watch(), name="watch never")
        await player.play(story.steps)
        watching.cancel()
    results = tuple(player.results.values())
    return Outcome(
        file=story.file,
        ok=len(results) == len(story.steps) and all(result.ok for result in results),
        seconds=clock.loop_time() - began,
        results=results,
    )


@dataclass(frozen=True, slots=True)
class _Look:
    """What one look showed: whether it is all as wanted, the values, and what is not."""

    fits: bool
    seen: Mapping[str, Any]
    misses: str


@dataclass(slots=True)
class _Player:
    """The state of one playing: results so far, start of each step, watched conditions."""

    stage: Stage
    tell: Tell
    results: dict[int, Result] = field(default_factory=dict)
    moments: dict[str, int] = field(default_factory=dict)
    nevers: dict[int, Step] = field(default_factory=dict)
    broken: bool = False

    async def play(self, steps: tuple[Step, ...]) -> None:
        await self.stage.remember()
        for number, step in enumerate(steps):
            self.moments[step.kind] = clock.now_ns()
            if step.name:
                self.moments[step.name] = self.moments[step.kind]
            began = clock.loop_time()
            ok, seen, why = await self._do(number, step)
            self._record(
                number,
                Result(step=step, ok=ok, seconds=clock.loop_time() - began, seen=seen, why=why),
            )
            if self.broken or not ok:
                return
        await self._look_at_all()

    async def _do(self, number: int, step: Step) -> tuple[bool, Mapping[str, Any], str]:
        match step.action:
            case Expect():
                return await self._expect(step.action)
            case Say():
                pass
            case Wait(seconds=seconds):
                await self._wait(seconds)
            case Mark():
                await self.stage.remember()
            case Never():
                self.nevers[number] = step
            case act:
                self.stage.mark()
                try:
                    await self.stage.act(act)
                except StageError as error:
                    return False, {}, str(error)
        return True, {}, ""

    async def _wait(self, seconds: float) -> None:
        end = clock.loop_time() + seconds
        while not self.broken and (left := end - clock.loop_time()) > 0:
            await clock.sleep(min(LOOK_S, left))

    async def _expect(self, expect: Expect) -> tuple[bool, Mapping[str, Any], str]:
        began = clock.loop_time()
        asks = any(each.about in ASKED for each in expect.conditions)
        since: float | None = None  # when it was first seen
        while True:
            look = await self._observe(expect.conditions)
            now = clock.loop_time()
            if look.fits:
                since = now if since is None else since
                if now - since >= expect.for_s:
                    return True, look.seen, ""
            elif since is not None:
                why = f"was seen after {since - began:.1f} s, but not for {expect.for_s:g} s"
                return False, look.seen, f"{why}: {look.misses}"
            elif now - began >= expect.within_s:
                return False, look.seen, f"not within {expect.within_s:g} s: {look.misses}"
            if self.broken:
                return False, look.seen, "the story ended here: what must never be seen was seen"
            await clock.sleep(ASK_S if asks else LOOK_S)

    async def _observe(self, conditions: tuple[Condition, ...]) -> _Look:
        pairs = [(each, await self.stage.observe(each, self.moments)) for each in conditions]
        seen: dict[str, Any] = {}
        for condition, observed in pairs:
            seen |= _seen(condition, observed)
        return _Look(
            fits=all(fitting(*pair) for pair in pairs),
            seen=seen,
            misses="; ".join(words for pair in pairs if (words := misses(*pair))),
        )

    async def watch(self) -> None:
        """Look at every `never` until one is seen; run beside `play` and cancelled after it."""
        while not self.broken:
            await self._look_at_all()
            await clock.sleep(LOOK_S)

    async def _look_at_all(self) -> None:
        for number, step in tuple(self.nevers.items()):
            await self._look(number, step)

    async def _look(self, number: int, step: Step) -> None:
        assert isinstance(step.action, Never)  # noqa: S101 - only these are put there
        look = await self._observe(step.action.conditions)
        if look.fits:
            self.broken = True
            seconds = (clock.now_ns() - self.moments[step.kind]) / 1e9
            why = "was seen, and must never be"
            self._record(
                number, Result(step=step, ok=False, seconds=seconds, seen=look.seen, why=why)
            )

    def _record(self, number: int, result: Result) -> None:
        self.results[number] = result
        self.tell(result)


def fitting(condition: Condition, observed: Observation) -> bool:
    """Whether all keys of a condition are as wanted."""
    return all(matching.fits(want, observed.values.get(key)) for key, want in condition.wants)


def misses(condition: Condition, observed: Observation) -> str:
    """Say which keys are not as wanted, and what they are instead."""
    return "; ".join(
        f"{key} is {plain(matching.project(want, observed.values.get(key)))}, not {plain(want)}"
        for key, want in condition.wants
        if not matching.fits(want, observed.values.get(key))
    )


def _seen(condition: Condition, observed: Observation) -> dict[str, Any]:
    values = {
        key: matching.project(want, observed.values.get(key)) for key, want in condition.wants
    }
    seen = values | dict(observed.shown)
    return seen if condition.about in NAMED else {condition.about.value: seen}
