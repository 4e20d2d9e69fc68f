"""A step of the controller's part → what the intent says of it, for `slicewire status`. Pure.

`drain` publishes it with the intent when it differs from what stands there. Times are wall-clock
ones, so they are kept as they were said first: what only they would change is not published anew.
"""

from __future__ import annotations

from services.reconfigurer.controller.attempt import Next
from shared.contract.messages import Drain, WaitedFor

SAME_NS = 2_000_000_000  # two readings of one moment by two clocks differ by less


def of(
    step: Next, former: Drain | None, *, limit_s: float, now: float, now_ns: int
) -> Drain | None:
    """Say where making room stands; None where there is nothing to make room for.

    Args:
        step: what was decided last.
        former: what is said now.
        limit_s: how long each of the two waits may take.
        now: the loop's time, in which an attempt counts.
        now_ns: the same moment by the clock on the wall.
    """

    def moment(at: float) -> int:
        return now_ns + int((at - now) * 1e9)

    attempt = step.attempt
    if attempt.goes_on:
        since = attempt.began if attempt.holding is None else attempt.holding
        since_ns = moment(since or 0.0)
        found = Drain(
            sentence=step.waits,
            pods=_pods(step, former, now_ns),
            since_ns=since_ns,
            until_ns=since_ns + int(limit_s * 1e9),
        )
    elif attempt.failure is not None:
        failure = attempt.failure
        found = Drain(
            sentence=failure.sentence, reason=failure.reason, until_ns=moment(attempt.retry_at)
        )
    else:
        return None
    return former if former is not None and _same(found, former) else found


def _pods(step: Next, former: Drain | None, now_ns: int) -> tuple[WaitedFor, ...]:
    """Name the pods in the way, each since it was first."""
    known = {each.pod: each.since_ns for each in former.pods} if former else {}
    return tuple(WaitedFor(pod, why, known.get(pod, now_ns)) for pod, why in step.blockers)


def _same(found: Drain, former: Drain) -> bool:
    moments = ((found.since_ns, former.since_ns), (found.until_ns, former.until_ns))
    said = (found.sentence, found.reason, found.pods)
    return said == (former.sentence, former.reason, former.pods) and all(
        abs(one - other) < SAME_NS for one, other in moments
    )
