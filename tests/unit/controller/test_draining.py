"""What people are told of a drain: for whom it waits, since when, until when, and what failed."""

from __future__ import annotations

import dataclasses

from services.reconfigurer.controller import draining
from services.reconfigurer.controller.attempt import Attempt, Failure, Next
from shared.contract.messages import Drain, WaitedFor

SECOND = 1_000_000_000
START_NS = 1_000_000 * SECOND
HOLDING = Attempt(began=90.0, holding=100.0)


def told(step: Next, former: Drain | None = None, *, now: float, late_ns: int = 0) -> Drain | None:
    """At the loop's time `now`; the clock on the wall may read a little later."""
    now_ns = START_NS + int(now * SECOND) + late_ns
    return draining.of(step, former, limit_s=300.0, now=now, now_ns=now_ns)


def test_a_pod_is_waited_for_since_it_was_first_in_the_way() -> None:
    """Also when the reason changes; the limit counts from the hold."""
    first = told(Next(attempt=HOLDING, blockers=(("ml/a", "is being evicted"),)), now=101.0)
    step = Next(attempt=HOLDING, waits="w", blockers=(("ml/a", "is ending"), ("ml/b", "x")))
    found = told(step, first, now=130.0)
    assert found == Drain(
        sentence="w",
        pods=(
            WaitedFor("ml/a", "is ending", START_NS + 101 * SECOND),
            WaitedFor("ml/b", "x", START_NS + 130 * SECOND),
        ),
        since_ns=START_NS + 100 * SECOND,
        until_ns=START_NS + 400 * SECOND,
    )


def test_before_the_hold_the_limit_counts_from_the_beginning() -> None:
    """Cordon, pause and pods on their way have the same time once more."""
    found = told(Next(attempt=Attempt(began=90.0), waits="w"), now=95.0)
    assert found is not None
    assert (found.since_ns, found.until_ns) == (START_NS + 90 * SECOND, START_NS + 390 * SECOND)


def test_what_only_time_would_change_is_not_said_anew() -> None:
    """A look each second must not make an intent each second."""
    step = Next(attempt=HOLDING, waits="w", blockers=(("ml/a", "is ending"),))
    first = told(step, now=101.0)
    assert told(step, first, now=102.0, late_ns=300_000_000) is first


def test_an_attempt_that_was_given_up_says_why_and_when_it_is_tried_again() -> None:
    """The times of the wait are over."""
    gave_up = Attempt(failure=Failure("DrainTimeout", "pods stay"), retry_at=500.0)
    found = told(Next(attempt=gave_up, waits="pods stay"), now=400.0)
    assert found == Drain(
        sentence="pods stay", reason="DrainTimeout", until_ns=START_NS + 500 * SECOND
    )
    assert told(Next(attempt=dataclasses.replace(gave_up, failure=None)), found, now=401.0) is None
