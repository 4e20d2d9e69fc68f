"""Health: sick GPUs and their XIDs, and how slicewire itself does."""

from __future__ import annotations

from deploy.dashboards import promql
from deploy.dashboards.fleet import SICK
from deploy.dashboards.form import Dashboard, Good, Kind, Panel, Query, Row, Unit

VERDICTS_ON_GPUS = promql.counted("slicewire_gpu_health_changes_total", "$__rate_interval")

HEAD = Row(
    4,
    (
        Panel(
            title="GPUs that are sick",
            kind=Kind.STAT,
            width=4,
            queries=(Query(expr=SICK, legend="sick"),),
            good=Good.ZERO,
        ),
        Panel(
            title="Nodes that are silent",
            kind=Kind.STAT,
            width=4,
            says="They told nothing yet, or nothing for three minutes.",
            queries=(Query(expr='max(slicewire_nodes{state="silent"})', legend="silent"),),
            good=Good.ZERO,
        ),
        Panel(
            title="Services without the bus",
            kind=Kind.STAT,
            width=4,
            queries=(
                Query(expr="count(slicewire_bus_connected == 0) or vector(0)", legend="away"),
            ),
            good=Good.ZERO,
        ),
        Panel(
            title="Controllers that lead",
            kind=Kind.STAT,
            width=4,
            queries=(Query(expr="sum(slicewire_leader) or vector(0)", legend="leading"),),
            good=Good.ABOVE_ZERO,
        ),
        Panel(
            title="Telemetry that was lost",
            kind=Kind.STAT,
            width=4,
            queries=(
                Query(
                    expr=f"sum({promql.counted('slicewire_dropped_total')}) or vector(0)",
                    legend="lost",
                ),
            ),
            good=Good.ZERO,
        ),
        Panel(
            title="Slots that two pods hold",
            kind=Kind.STAT,
            width=4,
            says="By one answer of the kubelet. It never should.",
            queries=(
                Query(
                    expr=f"sum({promql.counted('slicewire_conflicts_total')}) or vector(0)",
                    legend="conflicts",
                ),
            ),
            good=Good.ZERO,
        ),
    ),
)
GPUS = Row(
    6,
    (
        Panel(
            title="Sick GPUs",
            kind=Kind.TABLE,
            width=13,
            columns={"node": "Node", "index": "GPU", "model": "Model", "uuid": "UUID"},
            link="node",
            queries=(Query(expr="max by (node, index, model, uuid) (slicewire_gpu_healthy) == 0"),),
        ),
        Panel(
            title="XIDs",
            kind=Kind.TABLE,
            width=11,
            says="NVIDIA's numbers of GPU errors, within the time that the page shows; those of"
            " applications among them.",
            columns={"node": "Node", "uuid": "UUID", "xid": "XID"},
            link="node",
            queries=(
                Query(
                    expr="sum by (node, uuid, xid)"
                    f" ({promql.counted('slicewire_gpu_xids_total')}) > 0",
                    column="Times",
                ),
            ),
        ),
    ),
)
VERDICTS = Row(
    8,
    (
        Panel(
            title="Verdicts on GPUs",
            kind=Kind.LINES,
            width=12,
            says="Changes of a GPU's or MIG device's health, by the new state.",
            queries=(
                Query(
                    expr=f"sum by (state) ({VERDICTS_ON_GPUS})",
                    legend="{{state}}",
                ),
            ),
        ),
        Panel(
            title="Allocate: refused",
            kind=Kind.LINES,
            width=12,
            says="Pods that the kubelet failed to start because of our answer.",
            queries=(
                Query(
                    expr="sum by (node, resource) ("
                    + promql.counted(
                        'slicewire_allocate_duration_seconds_count{outcome="refused"}',
                        "$__rate_interval",
                    )
                    + ")",
                    legend="{{node}} {{resource}}",
                ),
            ),
        ),
    ),
)
BUS = Row(
    8,
    (
        Panel(
            title="Reconnects to the bus",
            kind=Kind.LINES,
            width=8,
            queries=(
                Query(
                    expr="sum by (service) (slicewire_bus_reconnects_total)", legend="{{service}}"
                ),
            ),
        ),
        Panel(
            title="Queues",
            kind=Kind.LINES,
            width=8,
            says="What waits to be sent. It grows while the receiver is away; then the oldest go.",
            queries=(
                Query(
                    expr="max by (service, queue) (slicewire_queue_depth)",
                    legend="{{service}} {{queue}}",
                ),
            ),
        ),
        Panel(
            title="Lost, by kind",
            kind=Kind.LINES,
            width=8,
            queries=(
                Query(
                    expr="sum by (service, what) (slicewire_dropped_total)",
                    legend="{{service}} {{what}}",
                ),
            ),
        ),
    ),
)
API_SERVER = Row(
    8,
    (
        Panel(
            title="Requests to the API server",
            kind=Kind.LINES,
            width=12,
            queries=(
                Query(
                    expr="sum by (verb, outcome)"
                    " (rate(slicewire_api_requests_total[$__rate_interval]))",
                    legend="{{verb}} {{outcome}}",
                ),
            ),
            unit=Unit.PER_SECOND,
        ),
        Panel(
            title="Watches that began anew",
            kind=Kind.LINES,
            width=12,
            queries=(
                Query(expr="sum by (watch) (slicewire_watch_restarts_total)", legend="{{watch}}"),
            ),
        ),
    ),
)
VERSIONS = Row(
    8,
    (
        Panel(
            title="Versions",
            kind=Kind.TABLE,
            width=24,
            columns={"service": "Service", "version": "Version"},
            queries=(
                Query(
                    expr="count by (service, version) (slicewire_build_info)", column="Processes"
                ),
            ),
        ),
    ),
)
PAGE = Dashboard(
    name="health",
    title="Health",
    says="Sick GPUs and their XIDs; bus, queues and API server as slicewire's services see them.",
    rows=(HEAD, GPUS, VERDICTS, BUS, API_SERVER, VERSIONS),
)
