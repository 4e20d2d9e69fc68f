"""Sharing efficiency: what is asked for, what is held, what is used."""

from __future__ import annotations

from deploy.dashboards import promql
from deploy.dashboards.form import Dashboard, Good, Kind, Panel, Query, Row, Unit

MEMORY = "sum(slicewire_gpu_memory_used_bytes) / sum(slicewire_gpu_memory_size_bytes)"
HELD = f"sum(slicewire_slots{{{promql.IN_USE}}})"
WAITING = "(sum(slicewire_waiting_slots) or vector(0))"
POD_MEMORY = "slicewire_pod_gpu_memory_used_bytes"
WITHOUT_USE = (
    "count by (node, namespace, pod, container, resource) (slicewire_holder)"
    " unless on (node, namespace, pod, container)"
    f" (sum by (node, namespace, pod, container) ({POD_MEMORY}) > 0)"
)

HEAD = Row(
    4,
    (
        Panel(
            title="Asked, held, offered",
            kind=Kind.STAT,
            width=12,
            says="Slots that pods ask for (those that run and those that wait), that pods hold, and"
            " that there are.",
            queries=(
                Query(expr=f"{HELD} + {WAITING}", legend="asked"),
                Query(expr=HELD, legend="held"),
                Query(expr=f"sum(slicewire_slots{{{promql.OFFERED}}})", legend="offered"),
            ),
        ),
        Panel(
            title="Memory in use",
            kind=Kind.STAT,
            width=4,
            queries=(Query(expr=MEMORY, legend="of all GPUs"),),
            unit=Unit.RATIO,
        ),
        Panel(
            title="Utilization",
            kind=Kind.STAT,
            width=4,
            queries=(Query(expr="avg(slicewire_gpu_utilization_ratio)", legend="mean"),),
            unit=Unit.RATIO,
        ),
        Panel(
            title="Use that nobody holds",
            kind=Kind.STAT,
            width=4,
            says="Memory of processes that belong to no container with a slot.",
            queries=(
                Query(
                    expr="sum(slicewire_unaccounted_gpu_memory_used_bytes) or vector(0)",
                    legend="memory",
                ),
            ),
            unit=Unit.BYTES,
            good=Good.ZERO,
        ),
    ),
)
RESOURCES = Row(
    8,
    (
        Panel(
            title="Held, by resource",
            kind=Kind.LINES,
            width=12,
            queries=(
                Query(
                    expr=f"sum by (resource) (slicewire_slots{{{promql.IN_USE}}})",
                    legend="{{resource}}",
                ),
            ),
            stacked=True,
        ),
        Panel(
            title="Asked for by pods that wait, by resource",
            kind=Kind.LINES,
            width=12,
            queries=(
                Query(expr="sum by (resource) (slicewire_waiting_slots)", legend="{{resource}}"),
            ),
            stacked=True,
        ),
    ),
)
GPUS = Row(
    7,
    (
        Panel(
            title="Held and used, by GPU",
            kind=Kind.TABLE,
            width=24,
            says="A GPU that is held in full and used little can be cut into more slots; one whose"
            " memory is nearly full cannot.",
            columns={"node": "Node", "index": "GPU", "model": "Model", "uuid": "UUID"},
            link="node",
            queries=(
                Query(
                    expr=promql.with_index(
                        f"sum by (node, uuid) (slicewire_slots{{{promql.IN_USE}}})"
                        f" / sum by (node, uuid) (slicewire_slots{{{promql.OFFERED}}})"
                    ),
                    column="Slots held",
                    unit=Unit.RATIO,
                ),
                Query(
                    expr="sum by (node, uuid, index, model) (slicewire_gpu_memory_used_bytes)"
                    " / sum by (node, uuid, index, model) (slicewire_gpu_memory_size_bytes)",
                    column="Memory used",
                    unit=Unit.RATIO,
                ),
                Query(
                    expr="sum by (node, uuid, index, model) (slicewire_gpu_utilization_ratio)",
                    column="Utilization",
                    unit=Unit.RATIO,
                ),
            ),
        ),
    ),
)
PODS = Row(
    8,
    (
        Panel(
            title="Containers that use most GPU memory",
            kind=Kind.BARS,
            width=10,
            queries=(
                Query(
                    expr=f"topk(15, sum by (namespace, pod, container) ({POD_MEMORY}))",
                    legend="{{namespace}}/{{pod}} {{container}}",
                ),
            ),
            unit=Unit.BYTES,
        ),
        Panel(
            title="Containers that hold slots and use no GPU memory",
            kind=Kind.TABLE,
            width=14,
            says="Only where NVML tells whose processes there are.",
            columns={
                "node": "Node",
                "namespace": "Namespace",
                "pod": "Pod",
                "container": "Container",
                "resource": "Resource",
            },
            link="node",
            queries=(Query(expr=WITHOUT_USE, column="Slots"),),
        ),
    ),
)
SHARED = Row(
    6,
    (
        Panel(
            title="Shared GPUs, by number of holders",
            kind=Kind.BARS,
            width=11,
            says="How many pods meet on a GPU that is cut into slots.",
            queries=(
                Query(
                    expr='count by (holders) (slicewire_gpu_memory_used_bytes{shared="true"})',
                    legend="pods: {{holders}}",
                ),
            ),
        ),
        Panel(
            title="Use that nobody holds, by GPU",
            kind=Kind.TABLE,
            width=13,
            says="Processes that belong to no container with a slot: they take from those who hold"
            " one.",
            columns={"node": "Node", "uuid": "UUID"},
            link="node",
            queries=(
                Query(
                    expr="sum by (node, uuid) (slicewire_unaccounted_gpu_memory_used_bytes) > 0",
                    column="Memory",
                    unit=Unit.BYTES,
                ),
                Query(
                    expr="sum by (node, uuid) (slicewire_unaccounted_gpu_processes) > 0",
                    column="Processes",
                ),
            ),
        ),
    ),
)
PAGE = Dashboard(
    name="sharing",
    title="Sharing efficiency",
    says="What is asked for, what is held, and what is used of it.",
    rows=(HEAD, RESOURCES, GPUS, PODS, SHARED),
)
