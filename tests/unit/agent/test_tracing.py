"""A layout that cannot be leaves a span with the reason, once for each demand."""

from __future__ import annotations

from services.reconfigurer.agent import tracing
from services.reconfigurer.agent.memory import Reason
from shared.contract.generation import Generation
from shared.contract.messages import Phase, Progress, Stamp
from shared.contract.spans import SpanRecord
from shared.telemetry import context, spans

CHANGE = f"00-{'a' * 32}-{'b' * 16}-01"


def said(reason: str, counter: int = 1) -> Progress:
    """What the agent says of a demand."""
    stamp = Stamp(node="n", writer="w", generation=Generation(1, counter))
    return Progress(stamp=stamp, phase=Phase.FAILED, reason=reason, sentence="no room")


def told(before: Progress | None, after: Progress) -> list[SpanRecord]:
    """The spans that come of it."""
    found: list[SpanRecord] = []
    telemetry = spans.Telemetry("agent", "n", export=found.append)
    tracing.tell_refusal(telemetry, before, after, CHANGE)
    return found


def test_a_refused_layout_is_an_error_in_the_trace_of_its_demand() -> None:
    (span,) = told(None, said(Reason.REFUSED))
    assert (span.name, span.ok, span.error) == ("plan layout", False, "Refused: no room")
    assert span.trace_id == context.trace_id(CHANGE)


def test_it_is_told_once_for_each_demand() -> None:
    assert told(said(Reason.REFUSED), said(Reason.REFUSED)) == []
    assert told(said(Reason.REFUSED), said(Reason.REFUSED, counter=2))


def test_what_failed_later_has_spans_of_its_own() -> None:
    assert told(None, said(Reason.NVML_FAILED)) == []
