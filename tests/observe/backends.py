"""Prometheus and a collector as processes of a test, on ports of this machine's choosing."""

from __future__ import annotations

import contextlib
import json
import pathlib
import socket
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.kube import processes
from tests.observe import build

HERE = "127.0.0.1"
SCRAPE_S = 1
Json = dict[str, Any]


@dataclass(frozen=True)
class Prometheus:
    """A Prometheus that runs."""

    url: str

    def query(self, expr: str, at: float) -> list[Json]:
        """Series of an expression as of a moment; their labels, and values as numbers.

        Raises:
            urllib.error.HTTPError: Prometheus cannot read it.
        """
        asked = urllib.parse.urlencode({"query": expr, "time": at})
        with urllib.request.urlopen(f"{self.url}/api/v1/query?{asked}", timeout=20) as answer:
            found = json.load(answer)["data"]["result"]
        return [{"labels": each["metric"], "value": float(each["value"][1])} for each in found]

    def ready(self) -> bool:
        """Whether it answers."""
        with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)


@dataclass(frozen=True)
class Collector:
    """An OpenTelemetry Collector that writes what it receives to files."""

    url: str
    spans_file: pathlib.Path
    metrics_file: pathlib.Path
    running: processes.Processes

    @property
    def environment(self) -> Mapping[str, str]:
        """The standard variables by which services send to it, often enough for a test."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url,
            "OTEL_EXPORTER_OTLP_TIMEOUT": "2",
            "OTEL_METRIC_EXPORT_INTERVAL": "2000",
            "OTEL_METRIC_EXPORT_TIMEOUT": "2000",
            "OTEL_BSP_SCHEDULE_DELAY": "500",
        }

    def end(self) -> None:
        """Have it end; what it has received is on disk."""
        self.running.stop("collector")

    def spans(self) -> Iterator[tuple[Json, Json]]:
        """Each span with the attributes of its resource."""
        for resource, scopes in self._read(self.spans_file, "resourceSpans", "scopeSpans"):
            for scope in scopes:
                for span in scope["spans"]:
                    yield resource, span

    def metrics(self) -> Iterator[tuple[Json, Json]]:
        """Each report of a metric with the attributes of its resource."""
        for resource, scopes in self._read(self.metrics_file, "resourceMetrics", "scopeMetrics"):
            for scope in scopes:
                for metric in scope["metrics"]:
                    yield resource, metric

    def _read(self, file: pathlib.Path, top: str, below: str) -> Iterator[tuple[Json, list[Json]]]:
        """One OTLP object a line; each of its resources with what it sent."""
        for line in file.read_text(encoding="utf-8").splitlines():
            for each in json.loads(line)[top]:
                yield attributes(each["resource"]), each[below]


def attributes(holder: Json) -> Json:
    """OTLP's list of attributes as a map."""
    return {
        each["key"]: next(iter(each["value"].values()), None)
        for each in holder.get("attributes", [])
    }


@contextlib.contextmanager
def prometheus(
    folder: pathlib.Path, targets: pathlib.Path, rules: pathlib.Path, *static: str
) -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes the targets of a file, and `static` ones as dcgm-exporter."""
    running = processes.Processes(folder)
    address = f"{HERE}:{free_port()}"
    config = folder / "prometheus.yaml"
    config.write_text(json.dumps(_configuration(targets, rules, static)), encoding="utf-8")
    running.start(
        "prometheus",
        [
            build.program("prometheus"),
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'prometheus'}",
            f"--web.listen-address={address}",
        ],
    )
    try:
        found = Prometheus(f"http://{address}")
        running.ready("prometheus", found.ready)
        yield found
    finally:
        running.stop("prometheus")


def _configuration(targets: pathlib.Path, rules: pathlib.Path, static: tuple[str, ...]) -> Json:
    """As docs/observe.md tells people; JSON is YAML."""
    every = f"{SCRAPE_S}s"
    return {
        "global": {"scrape_interval": every, "evaluation_interval": every},
        "rule_files": [str(rules)],
        "scrape_configs": [
            {
                "job_name": "slicewire",
                "honor_labels": True,
                "file_sd_configs": [{"files": [str(targets)], "refresh_interval": "1s"}],
            },
            {
                "job_name": "dcgm-exporter",
                "honor_labels": True,
                "static_configs": [{"targets": list(static)}],
            },
        ],
    }


@contextlib.contextmanager
def collector(folder: pathlib.Path, zipkin: str = "") -> Iterator[Collector]:
    """Run a collector that receives OTLP over HTTP; with `zipkin` it hands spans on to there."""
    running = processes.Processes(folder)
    address = f"{HERE}:{free_port()}"
    spans, metrics = folder / "spans.jsonl", folder / "metrics.jsonl"
    config = folder / "collector.yaml"
    config.write_text(json.dumps(_pipelines(address, spans, metrics, zipkin)), encoding="utf-8")
    running.start("collector", [build.program("collector"), "--config", config])
    try:
        running.ready("collector", lambda: _listens(address))
        yield Collector(f"http://{address}", spans, metrics, running)
    finally:
        running.stop("collector")


def _pipelines(address: str, spans: pathlib.Path, metrics: pathlib.Path, zipkin: str) -> Json:
    exporters: Json = {
        "file/spans": {"path": str(spans), "flush_interval": "200ms"},
        "file/metrics": {"path": str(metrics), "flush_interval": "200ms"},
    }
    to = ["file/spans"]
    if zipkin:
        exporters["zipkin"] = {"endpoint": f"{zipkin}/api/v2/spans"}
        to.append("zipkin")
    return {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": address}}}},
        "exporters": exporters,
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {
                "traces": {"receivers": ["otlp"], "exporters": to},
                "metrics": {"receivers": ["otlp"], "exporters": ["file/metrics"]},
            },
        },
    }


def _listens(address: str) -> bool:
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), timeout=2):
        return True


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as asking:
        asking.bind((HERE, 0))
        port: int = asking.getsockname()[1]
        return port
