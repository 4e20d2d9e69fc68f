"""Measurements kept by the OpenTelemetry SDK, read by Prometheus and sent by OTLP.

Imported by `setup`, only where somebody reads: the SDK takes several MB in each service.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Mapping

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Observation
from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider
from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    MetricReader,
    MetricsData,
    PeriodicExportingMetricReader,
)
from prometheus_client import CollectorRegistry, exposition

from shared import version
from shared.contract.table import Role
from shared.runtime import clock
from shared.runtime.health import Page
from shared.telemetry import catalogue, meters, produced, resource
from shared.telemetry.catalogue import Instrument, Kind

PATH = "/metrics"


class OtelMeters(meters.Meters):
    """Instruments of one service. `exporter` is where they are sent, None for nowhere."""

    def __init__(
        self, service: Role, node: str, *, exposed: bool, exporter: MetricExporter | None = None
    ) -> None:
        super().__init__()
        self._place = {each: each.place(service, node) for each in catalogue.INSTRUMENTS}
        self._since_ns = clock.now_ns()
        self._sources: tuple[meters.Source, ...] = ()
        self._turn = threading.Lock()
        self._registry = CollectorRegistry() if exposed else None
        self._provider = MeterProvider(
            metric_readers=self._readers(exporter),
            resource=resource.resource(service, node),
            exemplar_filter=AlwaysOffExemplarFilter(),
            shutdown_on_exit=False,  # it would wait for a receiver that is away
        )
        self._make_instruments(service)
        self.show(self._lost)

    @property
    def pages(self) -> Mapping[str, Page]:
        """The exposition for Prometheus."""
        if self._registry is None:
            return {}
        return {PATH: Page(exposition.CONTENT_TYPE_PLAIN_0_0_4, self.text)}

    def count(self, instrument: Instrument, by: int = 1, **labels: str) -> None:
        """Add to a counter."""
        series = self._place[instrument] | instrument.at(by, **labels).labels
        self._counters[instrument].add(by, series)

    def time(self, instrument: Instrument, seconds: float, **labels: str) -> None:
        """Add a duration to a histogram."""
        series = self._place[instrument] | instrument.at(seconds, **labels).labels
        self._histograms[instrument].record(seconds, series)

    def show(self, source: meters.Source) -> Callable[[], None]:
        """Ask `source` at each reading, until what comes back is called."""
        self._sources = (*self._sources, source)
        return functools.partial(self._hide, source)

    def _hide(self, source: meters.Source) -> None:
        self._sources = tuple(each for each in self._sources if each is not source)

    def text(self) -> bytes:
        """The exposition; a few ms for a hundred series, so not in a loop."""
        if self._registry is None:
            return b""
        with self._turn:
            return exposition.generate_latest(self._registry)

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()

    def _readers(self, exporter: MetricExporter | None) -> list[MetricReader]:
        readers: list[MetricReader] = []
        if self._registry is not None:
            readers.append(_Exposition(self, self._registry))
        if exporter is not None:
            readers.append(PeriodicExportingMetricReader(_Whole(self, exporter)))
        return readers

    def _make_instruments(self, service: Role) -> None:
        meter = self._provider.get_meter("slicewire", version.__version__)
        ours = [each for each in catalogue.INSTRUMENTS if service in each.services]
        self._counters: dict[Instrument, Counter] = {
            each: meter.create_counter(each.name, each.unit, each.says)
            for each in ours
            if each.kind is Kind.COUNTER
        }
        self._histograms: dict[Instrument, Histogram] = {
            each: meter.create_histogram(
                each.name,
                each.unit,
                each.says,
                explicit_bucket_boundaries_advisory=each.buckets,
            )
            for each in ours
            if each.kind is Kind.HISTOGRAM
        }
        # One instrument of the SDK's own has always a value: it hands nothing on where none has.
        meter.create_observable_gauge(
            catalogue.BUILD_INFO.name, [self._build_info], "", catalogue.BUILD_INFO.says
        )

    def with_shown(self, data: MetricsData, *, exposed: bool) -> MetricsData:
        """A reading of the SDK's, with what the sources show."""
        shown = produced.samples(self._sources)
        made = produced.metrics(shown, self._place, self._since_ns, exposed=exposed)
        return produced.beside(data, made)

    def _build_info(self, _options: CallbackOptions) -> Iterable[Observation]:
        place = self._place[catalogue.BUILD_INFO]
        yield Observation(1, place | {"version": version.__version__})

    def _lost(self) -> Iterable[catalogue.Sample]:
        yield catalogue.DROPPED.at(self.lost.count, what="otlp")


class _Exposition(PrometheusMetricReader):
    """Reads for Prometheus."""

    def __init__(self, owner: OtelMeters, registry: CollectorRegistry) -> None:
        super().__init__(disable_target_info=True, scope_info_enabled=False, registry=registry)
        self._owner = owner

    def _receive_metrics(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: object
    ) -> None:
        whole = self._owner.with_shown(metrics_data, exposed=True)
        super()._receive_metrics(whole, timeout_millis, **kwargs)


class _Whole(MetricExporter):
    """Sends readings with what the sources show; one that is not taken is counted and lost."""

    def __init__(self, owner: OtelMeters, exporter: MetricExporter) -> None:
        super().__init__(exporter._preferred_temporality, exporter._preferred_aggregation)
        self._owner = owner
        self._exporter = exporter

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: object
    ) -> MetricExportResult:
        whole = self._owner.with_shown(metrics_data, exposed=False)
        result = self._exporter.export(whole, timeout_millis, **kwargs)
        if result is not MetricExportResult.SUCCESS:
            self._owner.lost.add(1)
        return result

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: object) -> None:
        self._exporter.shutdown(timeout_millis, **kwargs)
