"""Two memories, one after the other → the spans and durations of what has ended between them.

Every span of a change is a child of the intent's, whose trace the memory keeps: so it is one trace
over a restart of the agent. `loop` calls it when a memory has been written.
"""

from __future__ import annotations

from services.reconfigurer.agent import words
from services.reconfigurer.agent.memory import Change, Memory, Reason
from shared.contract.generation import Generation
from shared.contract.messages import Progress
from shared.telemetry import catalogue, spans


def tell(telemetry: spans.Telemetry, before: Memory, after: Memory) -> None:
    """Leave a span of a plan that was made, of a wait that is over, of a change that has ended."""
    former, change = before.change, after.change
    if change is not None and (former is None or former.order != change.order):
        _planned(telemetry, change)
    if change is not None and change.begun and not (former is not None and former.begun):
        step = telemetry.begin("empty slots", change.traceparent, start_ns=change.held_ns)
        telemetry.end(step, attributes={"slots": len(change.slots)})
    if former is not None and change is None:
        _ended(telemetry, former, after)


def _planned(telemetry: spans.Telemetry, change: Change) -> None:
    step = telemetry.begin("plan layout", change.traceparent)
    telemetry.end(
        step,
        attributes={
            "plan": "; ".join(words.plan(part.plan) for part in change.parts),
            "gpus": len(change.parts),
            "instances.kept": sum(len(part.plan.kept) for part in change.parts),
            "instances.destroyed": sum(len(part.plan.destroy) for part in change.parts),
            "instances.created": sum(len(part.plan.create) for part in change.parts),
        },
    )


def tell_refusal(
    telemetry: spans.Telemetry, before: Progress | None, after: Progress, traceparent: str
) -> None:
    """Leave a span of a layout that cannot be: it has no plan, so no memory tells of it."""
    if after.reason != Reason.REFUSED or (before is not None and _told(before) == _told(after)):
        return
    step = telemetry.begin("plan layout", traceparent)
    telemetry.end(step, error=f"{after.reason}: {after.sentence}")


def _told(said: Progress) -> tuple[str, Generation]:
    return said.reason, said.stamp.generation


def _ended(telemetry: spans.Telemetry, former: Change, after: Memory) -> None:
    """The whole of an attempt; its order is the moment when it was planned."""
    step = telemetry.begin("change layout", former.traceparent, start_ns=former.order)
    failure = after.failure
    error = f"{failure.reason}: {failure.sentence}" if failure is not None else ""
    attributes: dict[str, spans.Attribute] = {
        "generation": str(former.generation),
        "step": former.step,
    }
    span = telemetry.end(step, attributes=attributes, error=error)
    telemetry.meters.time(
        catalogue.MIG_CHANGE_DURATION,
        (span.end_ns - span.start_ns) / 1e9,
        outcome=_outcome(former, failed=failure is not None),
    )


def _outcome(former: Change, *, failed: bool) -> str:
    if failed:
        return "failed"
    return "abandoned" if former.abandoned else "success"
