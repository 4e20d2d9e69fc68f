"""Finished spans → the tree of one change, with the traces that are linked to it.

`slicewire trace` prints it, a rehearsal's `trace` condition looks at its names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.contract.spans import SpanRecord

MOST_DEEP = 100  # steps below the first one


@dataclass(frozen=True, slots=True)
class Branch:
    """A span with what it caused, earliest first."""

    span: SpanRecord
    children: tuple[Branch, ...]

    def form(self) -> dict[str, Any]:
        """The branch as JSON has it; durations in milliseconds."""
        return {
            "name": self.span.name,
            "service": self.span.service,
            "node": self.span.node,
            "start": self.span.start_ns,
            "milliseconds": round((self.span.end_ns - self.span.start_ns) / 1e6, 3),
            "ok": self.span.ok,
            "error": self.span.error,
            "attributes": self.span.attributes,
            "links": list(self.span.links),
            "children": [child.form() for child in self.children],
        }


@dataclass(frozen=True, slots=True)
class Trace:
    """One trace: its spans in order of start, its trees (more than one if spans were lost)."""

    trace_id: str
    spans: tuple[SpanRecord, ...]
    roots: tuple[Branch, ...]

    @property
    def start_ns(self) -> int:
        """When its first span began."""
        return self.spans[0].start_ns

    @property
    def end_ns(self) -> int:
        """When its last span ended."""
        return max(span.end_ns for span in self.spans)

    @property
    def whole(self) -> bool:
        """Whether every span hangs on one root."""
        return len(self.roots) == 1

    @property
    def is_change(self) -> bool:
        """Whether it goes through several steps; a call of the kubelet is one."""
        return len(self.spans) > 1

    @property
    def nodes(self) -> frozenset[str]:
        """Nodes on which something was done."""
        return frozenset(span.node for span in self.spans if span.node)

    def form(self, linked: Iterable[Trace] = ()) -> dict[str, Any]:
        """The trace as JSON has it, with those that belong to it by name."""
        return {
            "trace": self.trace_id,
            "start": self.start_ns,
            "milliseconds": round((self.end_ns - self.start_ns) / 1e6, 3),
            "whole": self.whole,
            "spans": [branch.form() for branch in self.roots],
            "linked": [
                {"trace": each.trace_id, "name": each.spans[0].name, "start": each.start_ns}
                for each in linked
            ],
        }

    @property
    def links(self) -> frozenset[str]:
        """Ids of the traces that this one names; a link is a traceparent or a bare trace id."""
        return frozenset(_trace_of(link) for span in self.spans for link in span.links)


def traces(spans: Iterable[SpanRecord]) -> tuple[Trace, ...]:
    """Group spans into traces, oldest first; a span that came twice counts once."""
    groups: dict[str, dict[str, SpanRecord]] = defaultdict(dict)
    for span in spans:
        groups[span.trace_id][span.span_id] = span
    built = [_trace(trace_id, list(group.values())) for trace_id, group in groups.items()]
    return tuple(sorted(built, key=lambda trace: trace.start_ns))


def linked(trace: Trace, among: Sequence[Trace]) -> tuple[Trace, ...]:
    """The traces that `trace` goes back to by links, and those that go back to it, oldest first.

    Two traces that only go back to the same third one are not linked.
    """
    causes = _closure(
        trace, lambda each: [other for other in among if other.trace_id in each.links]
    )
    effects = _closure(
        trace, lambda each: [other for other in among if each.trace_id in other.links]
    )
    found = {each.trace_id: each for each in (*causes, *effects) if each is not trace}
    return tuple(sorted(found.values(), key=lambda each: each.start_ns))


def _closure(trace: Trace, near: Callable[[Trace], list[Trace]]) -> list[Trace]:
    reached, waiting = {trace.trace_id: trace}, [trace]
    while waiting:
        for each in near(waiting.pop()):
            if each.trace_id not in reached:
                reached[each.trace_id] = each
                waiting.append(each)
    return list(reached.values())


def _trace_of(link: str) -> str:
    _, _, rest = link.partition("-")
    return rest.partition("-")[0] or link


def _trace(trace_id: str, spans: list[SpanRecord]) -> Trace:
    ordered = sorted(spans, key=lambda span: (span.start_ns, span.end_ns, span.span_id))
    parents = {span.span_id: span.parent_id for span in ordered}
    children: dict[str | None, list[SpanRecord]] = defaultdict(list)
    for span in ordered:
        children[_parent(span, parents)].append(span)
    return Trace(trace_id, tuple(ordered), _branches(None, children))


def _parent(span: SpanRecord, parents: Mapping[str, str]) -> str | None:
    """What a span hangs on; None where nothing is known, or no way leads up to a first step.

    Spans come from other processes: some may name each other as parents, or go down too far.
    """
    above = span.parent_id
    for _ in range(MOST_DEEP):
        if above not in parents:
            return span.parent_id if span.parent_id in parents else None
        above = parents[above]
    return None


def _branches(
    parent_id: str | None, children: Mapping[str | None, list[SpanRecord]]
) -> tuple[Branch, ...]:
    return tuple(
        Branch(span, _branches(span.span_id, children)) for span in children.get(parent_id, ())
    )
