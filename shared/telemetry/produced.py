"""Samples of the services' sources → OpenTelemetry's points, made anew at each reading.

The SDK's observable instruments keep every label set that they were ever given: a node on which
pods come and go would fill its memory, and fold all series into one from 2,000 pods on. What is
made here belongs to one reading, so a pod that has gone is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from shared import version
from shared.runtime import clock
from shared.telemetry.catalogue import Instrument, Kind, Sample
from shared.telemetry.meters import Source

log = logging.getLogger(__name__)
SCOPE = InstrumentationScope("slicewire", version.__version__)
Labels = tuple[tuple[str, str], ...]


def samples(sources: Iterable[Source]) -> Iterator[Sample]:
    """What all sources show now; one that fails takes no other with it."""
    for source in sources:
        try:
            yield from tuple(source())
        except Exception:
            log.exception("a source of metrics failed: its series are missing; a bug in slicewire")


def metrics(
    shown: Iterable[Sample],
    place: Mapping[Instrument, dict[str, str]],
    since_ns: int,
    *,
    exposed: bool,
) -> list[Metric]:
    """Group samples by instrument, each series once; `place` has labels that all of one get.

    With `exposed` the names are Prometheus' own, units and all: the exporter for it knows no
    name for a share of one.
    """
    now_ns = clock.now_ns()
    grouped: dict[Instrument, dict[Labels, float]] = {}
    for sample in shown:
        labels = tuple(sorted((place[sample.instrument] | sample.labels).items()))
        grouped.setdefault(sample.instrument, {})[labels] = sample.value
    return [
        _metric(instrument, _points(series, since_ns, now_ns), exposed=exposed)
        for instrument, series in grouped.items()
    ]


def beside(data: MetricsData, added: list[Metric]) -> MetricsData:
    """What the SDK read, with `added` under the same resource and scope.

    There is one scope: of two equal ones the encoder of OTLP keeps the last and drops the other.
    """
    return MetricsData(
        resource_metrics=[
            ResourceMetrics(
                resource=each.resource,
                scope_metrics=[ScopeMetrics(SCOPE, [*_read(each), *added], "")],
                schema_url=each.schema_url,
            )
            for each in data.resource_metrics
        ]
    )


def _read(one: ResourceMetrics) -> Iterator[Metric]:
    for scope in one.scope_metrics:
        yield from scope.metrics


def _points(series: dict[Labels, float], since_ns: int, now_ns: int) -> list[NumberDataPoint]:
    return [
        NumberDataPoint(
            attributes=dict(labels),
            start_time_unix_nano=since_ns,
            time_unix_nano=now_ns,
            value=float(series[labels]),  # OTLP takes no truth value for a number
        )
        for labels in sorted(series)
    ]


def _metric(instrument: Instrument, points: Sequence[NumberDataPoint], *, exposed: bool) -> Metric:
    counted = instrument.kind is Kind.COUNTER
    name = instrument.exposed.removesuffix("_total") if exposed else instrument.name
    return Metric(
        name=name,
        description=instrument.says,
        unit="" if exposed else instrument.unit,
        data=Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
        if counted
        else Gauge(points),
    )
