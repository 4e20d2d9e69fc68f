"""The catalogue as a page for people: docs/metrics.md.

`make schema` writes it, `make check` fails when it differs from what the table says.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Iterable, Sequence

from shared.contract.table import Role
from shared.telemetry import catalogue, joins
from shared.telemetry.catalogue import Instrument, Kind
from shared.telemetry.joins import Join

FILE = pathlib.Path("docs/metrics.md")


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page, or with `--check` say whether it differs; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m shared.telemetry.docs")
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    options = parser.parse_args(argv)
    wanted = text()
    if not options.check:
        FILE.write_text(wanted, encoding="utf-8")
    elif not FILE.exists() or FILE.read_text(encoding="utf-8") != wanted:
        sys.stderr.write(f"{FILE} is not what the catalogue says: make schema\n")
        return 1
    return 0


def text() -> str:
    """What the page has to hold."""
    tables = [_section(title, services) for title, services in SECTIONS.items()]
    parts = (INTRODUCTION, *tables, BOUNDS, JOINING, *map(_join, joins.JOINS), SENDING, COST)
    return "\n\n".join(part.strip() for part in parts) + "\n"


SECTIONS = {
    "Every service": catalogue.EVERYWHERE,
    "Advertiser": (Role.ADVERTISER,),
    "Allocator": (Role.ALLOCATOR,),
    "Agent": (Role.AGENT,),
    "Controller": (Role.CONTROLLER,),
}

INTRODUCTION = """
# Metrics

Written by `make schema` from `shared/telemetry`; edits here are lost.

Advertiser, allocator, agent and controller show their metrics for Prometheus under `/metrics` on
their health port (8081 in the chart), and send the same by OTLP where the standard `OTEL_*`
variables name a receiver. The service that keeps MPS daemons has none: what it does shows in slots.
In the chart `metrics.enabled` is on; `metrics.podMonitor.enabled` makes a PodMonitor for the
Prometheus Operator, else the pods carry the `prometheus.io` annotations. With metrics off nothing
of it is loaded, and the port answers `/metrics` with 404.

Series of the three node services carry the label `node`; the controller's carry it where they are
about a node. Those that every service has carry `service` as well. `namespace`, `pod` and
`container` name the *holder*, not the pod that is scraped: a scrape configuration of your own needs
`honor_labels: true`, or Prometheus renames them to `exported_pod`. In OpenTelemetry the names have
dots and no unit: `slicewire_gpu_memory_used_bytes` is `slicewire.gpu.memory.used`, in `By`.

A gauge says what is so at the scrape. What has gone (a pod, a GPU) is gone with the next one: no
series of it stays, and none is sent as 0. Only the service that has the node's lock says anything
of the node, and only the leader anything of the fleet.
"""

BOUNDS = """
## How many series

The column *series* says how many one process shows at most. A node with eight GPUs of which each is
shared by ten pods shows about 80 series of holders, 50 of slots and 60 others; labels hold no
request, trace or message. What could grow without end is folded: a container that holds more
than 64 slots of one device is one series, and reasons and outcomes come from closed lists.
"""

JOINING = """
## Together with DCGM

dcgm-exporter measures GPUs and MIG instances, and names at most one pod of a shared GPU; we know
who holds which slot. A whole GPU is `UUID` there and `uuid` here. A MIG instance there is the
UUID of its *GPU* with `GPU_I_ID`; here it has a UUID of its own, and `slicewire_mig_instance_info`
says its place. Each query stands with series that promtool has evaluated it on. They work for one
cluster: where Prometheus holds several, add its label of the cluster to each `by` and `on`.
"""

SENDING = """
## OTLP, and a receiver that is away

`OTEL_EXPORTER_OTLP_ENDPOINT` sends spans and metrics, `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT` metrics
alone, `OTEL_METRICS_EXPORTER=none` keeps them back; `OTEL_METRIC_EXPORT_INTERVAL` (ms) says how
often, 60,000 by default. Take the scrape *or* the copy through a collector, not both under one
query. A receiver that refuses or hangs costs nobody anything but the entries, which
`slicewire_dropped_total{what="otlp"}` counts: nothing that Kubernetes waits for waits for it, and
a stop waits 2 s at most.
"""

COST = """
## What it costs

See [ADR 0015](adr/0015-metrics.md) for the memory of each service with metrics and without.
"""


def _section(title: str, services: tuple[Role, ...]) -> str:
    rows = [_row(each) for each in catalogue.INSTRUMENTS if each.services == services]
    return f"## {title}\n\n" + _table(("name", "labels", "says", "series"), rows)


def _row(instrument: Instrument) -> tuple[str, ...]:
    kind = "" if instrument.kind is Kind.GAUGE else f" ({instrument.kind})"
    return (
        f"`{instrument.exposed}`{kind}",
        ", ".join(f"`{label}`" for label in instrument.labels),
        instrument.says + _buckets(instrument),
        instrument.bound,
    )


def _buckets(instrument: Instrument) -> str:
    bounds = ", ".join(f"{bound:g}" for bound in instrument.buckets)
    return f"; buckets {bounds} s" if bounds else ""


def _join(join: Join) -> str:
    series, result = _lines(join.series), _lines(join.result)
    query = f"```promql\n{join.query}\n```"
    return f"### {join.title}\n\n{query}\n\nOf\n\n{series}\n\nit makes\n\n{result}"


def _lines(series: Iterable[tuple[str, float]]) -> str:
    lines = "\n".join(f"{name} {value:g}" for name, value in series)
    return f"```\n{lines}\n```"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    sys.exit(main())
