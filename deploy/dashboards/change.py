"""Change: what is changing, how long that takes, whom it moves, and the way to its trace."""

from __future__ import annotations

from deploy.dashboards import promql
from deploy.dashboards.form import Dashboard, Kind, Panel, Query, Row, Unit, Variable

DURATION = "slicewire_reconfiguration_duration_seconds"
MIG_DURATION = "slicewire_mig_change_duration_seconds"
EVENTS = "slicewire_refusals_total"
TRACES = "http://zipkin:9411/zipkin/?serviceName=slicewire-controller"
TEXT = """\
Every change is **one trace**, from the edit of a label or ConfigMap to the new capacity. \
The last hour stands on the bus, no backend is needed:

    slicewire trace
    slicewire trace NODE
    slicewire trace ID

`slicewire status --watch` shows where a change is. The link **Traces** opens the backend that \
OTLP is sent to, at the address above.
"""

NOW = Row(
    8,
    (
        Panel(title="From here to the trace", kind=Kind.TEXT, width=10, text=TEXT),
        Panel(
            title="Nodes by state",
            kind=Kind.STAT,
            width=6,
            queries=(Query(expr="max by (state) (slicewire_nodes)", legend="{{state}}"),),
        ),
        Panel(
            title="Phases",
            kind=Kind.TABLE,
            width=8,
            says="Where the change of each node's MIG layout stands.",
            columns={"node": "Node", "phase": "Phase"},
            link="node",
            queries=(Query(expr="slicewire_change_phase == 1"),),
        ),
    ),
)
CHANGES = Row(
    8,
    (
        Panel(
            title="Changes that ended",
            kind=Kind.LINES,
            width=12,
            says="In the last minutes, of sharing and of MIG layouts.",
            queries=(
                Query(
                    expr="sum by (kind, outcome)"
                    f" ({promql.counted(f'{DURATION}_count', '$__rate_interval')})",
                    legend="{{kind}} {{outcome}}",
                ),
            ),
        ),
        Panel(
            title="How long changes took, 9 of 10",
            kind=Kind.BARS,
            width=12,
            says="From the event to the capacity being seen in Kubernetes; a tenth took longer.",
            queries=(
                Query(
                    expr=promql.quantile(0.9, f"{DURATION}_bucket", "kind, outcome"),
                    legend="{{kind}} {{outcome}}",
                ),
            ),
            unit=Unit.SECONDS,
        ),
    ),
)
CUTS = Row(
    6,
    (
        Panel(
            title="MIG: how long a node's agent took, 9 of 10",
            kind=Kind.BARS,
            width=12,
            says="From the first demand to its end; a tenth took longer.",
            queries=(
                Query(
                    expr=promql.quantile(0.9, f"{MIG_DURATION}_bucket", "outcome"),
                    legend="{{outcome}}",
                ),
            ),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="MIG: calls that changed a GPU",
            kind=Kind.BARS,
            width=12,
            queries=(
                Query(
                    expr=f"sum by (call, outcome) ({promql.counted('slicewire_mig_writes_total')})",
                    legend="{{call}} {{outcome}}",
                ),
            ),
        ),
    ),
)
PODS = Row(
    6,
    (
        Panel(
            title="Evictions",
            kind=Kind.BARS,
            width=8,
            says="Blocked: a disruption budget says no; it is asked again until the drain's time"
            " is over.",
            queries=(
                Query(
                    expr=f"sum by (outcome) ({promql.counted('slicewire_evictions_total')})",
                    legend="{{outcome}}",
                ),
            ),
        ),
        Panel(
            title="Refusals",
            kind=Kind.BARS,
            width=8,
            says="Wanted states that were refused before anybody was disturbed.",
            queries=(
                Query(
                    expr=f"sum by (reason) ({promql.counted(EVENTS)})",
                    legend="{{reason}}",
                ),
            ),
        ),
        Panel(
            title="Nodes whose newest sharing text is refused",
            kind=Kind.TABLE,
            width=8,
            says="They go on with the last good one; an Event on the node says what is wrong.",
            columns={"node": "Node"},
            link="node",
            queries=(Query(expr="slicewire_config_refused == 1"),),
        ),
    ),
)
PAGE = Dashboard(
    name="change",
    title="Change",
    says="Changes of sharing and of MIG layouts: how many, how long, whom they moved.",
    rows=(NOW, CHANGES, CUTS, PODS),
    variables=(Variable(name="traces", label="Address of traces", default=TRACES),),
    traces=True,
)
