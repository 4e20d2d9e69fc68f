"""Fleet: how many GPUs and slots there are, who waits, which node to look at."""

from __future__ import annotations

from deploy.dashboards import promql
from deploy.dashboards.form import Dashboard, Good, Kind, Panel, Query, Row, Unit

SICK = "count(max by (node, uuid) (slicewire_gpu_healthy) == 0) or vector(0)"
SICK_BY_NODE = "sum by (node) (1 - max by (node, uuid) (slicewire_gpu_healthy))"
BY_STATE = "sum by (state) (slicewire_slots)"

HEAD = Row(
    4,
    (
        Panel(
            title="Nodes by state",
            kind=Kind.STAT,
            width=8,
            says="As the leading controller counts them: each node once, by the first state that"
            " is true of it: failed, changing, silent, ready.",
            queries=(Query(expr="max by (state) (slicewire_nodes)", legend="{{state}}"),),
        ),
        Panel(
            title="GPUs",
            kind=Kind.STAT,
            width=4,
            queries=(Query(expr="count(max by (node, uuid) (slicewire_gpu_info))", legend="GPUs"),),
        ),
        Panel(
            title="GPUs that are sick",
            kind=Kind.STAT,
            width=4,
            says="Sick, lost or silent: no new pod gets a slot of them.",
            queries=(Query(expr=SICK, legend="sick"),),
            good=Good.ZERO,
        ),
        Panel(
            title="Pods that wait for slots",
            kind=Kind.STAT,
            width=4,
            says="`slicewire why NAMESPACE/POD` says what one of them waits for.",
            queries=(Query(expr="sum(slicewire_waiting_pods) or vector(0)", legend="pods"),),
            good=Good.ZERO,
        ),
        Panel(
            title="Slots in use",
            kind=Kind.STAT,
            width=4,
            queries=(
                Query(
                    expr=f"sum(slicewire_slots{{{promql.IN_USE}}})"
                    f" / sum(slicewire_slots{{{promql.OFFERED}}})",
                    legend="in use",
                ),
            ),
            unit=Unit.RATIO,
        ),
    ),
)
SLOTS = Row(
    8,
    (
        Panel(
            title="Slots by state",
            kind=Kind.LINES,
            width=12,
            says="Each slot once. Granted: handed out, its pod not known yet. Retiring: held"
            " beyond the wanted count, and gone when its pod ends.",
            queries=(Query(expr=BY_STATE, legend="{{state}}"),),
            stacked=True,
        ),
        Panel(
            title="Slots in use, by resource",
            kind=Kind.LINES,
            width=12,
            queries=(
                Query(
                    expr=f"sum by (resource) (slicewire_slots{{{promql.IN_USE}}})"
                    f" / sum by (resource) (slicewire_slots{{{promql.OFFERED}}})",
                    legend="{{resource}}",
                ),
            ),
            unit=Unit.RATIO,
        ),
    ),
)
USE = Row(
    8,
    (
        Panel(
            title="GPU memory",
            kind=Kind.LINES,
            width=8,
            queries=(
                Query(expr="sum(slicewire_gpu_memory_size_bytes)", legend="there is"),
                Query(expr="sum(slicewire_gpu_memory_used_bytes)", legend="in use"),
            ),
            unit=Unit.BYTES,
        ),
        Panel(
            title="GPU utilization, mean of a node",
            kind=Kind.LINES,
            width=8,
            says="GPUs in MIG mode are not in it: NVML does not say.",
            queries=(
                Query(
                    expr="avg by (node) (slicewire_gpu_utilization_ratio)",
                    legend="{{node}}",
                ),
            ),
            unit=Unit.RATIO,
        ),
        Panel(
            title="Pods that wait, by reason",
            kind=Kind.LINES,
            width=8,
            queries=(Query(expr="sum by (reason) (slicewire_waiting_pods)", legend="{{reason}}"),),
            stacked=True,
        ),
    ),
)
NODES = Row(
    8,
    (
        Panel(
            title="Nodes",
            kind=Kind.TABLE,
            width=24,
            says="A node's name opens its page.",
            columns={"node": "Node"},
            link="node",
            queries=(
                Query(
                    expr="count by (node) (max by (node, uuid) (slicewire_gpu_info))", column="GPUs"
                ),
                Query(expr=SICK_BY_NODE, column="Sick"),
                Query(
                    expr=f"sum by (node) (slicewire_slots{{{promql.OFFERED}}})",
                    column="Slots offered",
                ),
                Query(expr=f"sum by (node) (slicewire_slots{{{promql.IN_USE}}})", column="In use"),
                Query(expr='sum by (node) (slicewire_slots{state="free"})', column="Free"),
                Query(
                    expr="sum by (node) (slicewire_gpu_memory_used_bytes)"
                    " / sum by (node) (slicewire_gpu_memory_size_bytes)",
                    column="Memory in use",
                    unit=Unit.RATIO,
                ),
            ),
        ),
    ),
)
PAGE = Dashboard(
    name="fleet",
    title="Fleet",
    says="All GPU nodes: slots, use, health, and who waits.",
    rows=(HEAD, SLOTS, USE, NODES),
)
