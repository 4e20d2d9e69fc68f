"""Node: its GPUs, its slots and who holds them, its MIG instances, what its services do."""

from __future__ import annotations

from deploy.dashboards import promql
from deploy.dashboards.form import Dashboard, Good, Kind, Panel, Query, Row, Unit, Variable

HERE = '{node="$node"}'
GPU = "GPU {{index}} {{model}}"
CONTAINER = "{{namespace}}/{{pod}} {{container}}"


def slots(states: str) -> str:
    """Slots of the node in these states."""
    return f'slicewire_slots{{node="$node", {states}}}'


def by_gpu(metric: str) -> str:
    """A metric of the node's GPUs, the same series whoever shares them."""
    return f"max by (index, model) ({metric}{HERE})"


HEAD = Row(
    4,
    (
        Panel(
            title="Sick GPUs",
            kind=Kind.STAT,
            width=4,
            queries=(
                Query(expr=f"count(slicewire_gpu_healthy{HERE} == 0) or vector(0)", legend="sick"),
            ),
            good=Good.ZERO,
        ),
        Panel(
            title="Slots",
            kind=Kind.STAT,
            width=8,
            queries=(
                Query(expr=f"sum({slots(promql.OFFERED)})", legend="offered"),
                Query(expr=f"sum({slots(promql.IN_USE)}) or vector(0)", legend="in use"),
                Query(expr='sum(slicewire_slots{node="$node", state="free"})', legend="free"),
            ),
        ),
        Panel(
            title="Change",
            kind=Kind.STAT,
            width=4,
            says="The phase in which the change of the node's MIG layout stands.",
            queries=(Query(expr=f"slicewire_change_phase{HERE} == 1", legend="{{phase}}"),),
            named=True,
        ),
        Panel(
            title="Services on the bus",
            kind=Kind.STAT,
            width=8,
            says="A service that has lost the bus goes on with what it knows.",
            queries=(Query(expr=f"slicewire_bus_connected{HERE}", legend="{{service}}"),),
            good=Good.ABOVE_ZERO,
        ),
    ),
)
GPUS = Row(
    8,
    (
        Panel(
            title="Slots in use, by GPU",
            kind=Kind.LINES,
            width=8,
            queries=(
                Query(
                    expr=promql.with_index(f"sum by (node, uuid) ({slots(promql.IN_USE)})", HERE),
                    legend=GPU,
                ),
            ),
        ),
        Panel(
            title="Memory in use, by GPU",
            kind=Kind.LINES,
            width=8,
            queries=(Query(expr=by_gpu("slicewire_gpu_memory_used_bytes"), legend=GPU),),
            unit=Unit.BYTES,
        ),
        Panel(
            title="Utilization, by GPU",
            kind=Kind.LINES,
            width=8,
            says="Share of the time in which some kernel ran; of a shared GPU it is that of all its"
            " holders. GPUs in MIG mode are not in it: NVML does not say.",
            queries=(Query(expr=by_gpu("slicewire_gpu_utilization_ratio"), legend=GPU),),
            unit=Unit.RATIO,
        ),
    ),
)
PODS = Row(
    8,
    (
        Panel(
            title="GPU memory, by container",
            kind=Kind.LINES,
            width=12,
            queries=(Query(expr=f"slicewire_pod_gpu_memory_used_bytes{HERE}", legend=CONTAINER),),
            unit=Unit.BYTES,
            stacked=True,
        ),
        Panel(
            title="Multiprocessors kept busy, by container",
            kind=Kind.LINES,
            width=12,
            queries=(
                Query(expr=f"slicewire_pod_gpu_sm_utilization_ratio{HERE}", legend=CONTAINER),
            ),
            unit=Unit.RATIO,
        ),
    ),
)
HOLDERS = Row(
    8,
    (
        Panel(
            title="Who holds what",
            kind=Kind.TABLE,
            width=24,
            says="`slicewire who --node NODE` says the same, with the trace of each grant.",
            columns={
                "namespace": "Namespace",
                "pod": "Pod",
                "container": "Container",
                "resource": "Resource",
                "index": "GPU",
                "model": "Model",
                "slot": "Slot",
            },
            queries=(
                Query(expr=promql.with_index(f"slicewire_holder{HERE}", HERE, uuid="parent")),
            ),
        ),
    ),
)
HARDWARE = Row(
    7,
    (
        Panel(
            title="GPUs",
            kind=Kind.TABLE,
            width=13,
            columns={"index": "GPU", "model": "Model", "pci": "PCI", "uuid": "UUID"},
            queries=(Query(expr=f"slicewire_gpu_info{HERE}"),),
        ),
        Panel(
            title="MIG instances",
            kind=Kind.TABLE,
            width=11,
            says="GI and CI are the ids of GPU instance and compute instance, as nvidia-smi and"
            " DCGM name them.",
            columns={
                "profile": "Profile",
                "index": "GPU",
                "gpu_instance": "GI",
                "compute_instance": "CI",
                "uuid": "UUID",
            },
            queries=(
                Query(
                    expr=promql.with_index(
                        f"slicewire_mig_instance_info{HERE}", HERE, uuid="parent"
                    ),
                ),
            ),
        ),
    ),
)
KUBELET = Row(
    7,
    (
        Panel(
            title="Allocate: how long the kubelet waits",
            kind=Kind.BARS,
            width=12,
            says="99 of 100 calls were faster, within the time that the page shows.",
            queries=(
                Query(
                    expr=promql.quantile(
                        0.99, f"slicewire_allocate_duration_seconds_bucket{HERE}", "outcome"
                    ),
                    legend="{{outcome}}",
                ),
            ),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Lists shown to the kubelet, and registrations",
            kind=Kind.LINES,
            width=12,
            queries=(
                Query(expr=f"slicewire_lists_total{HERE}", legend="lists of {{resource}}"),
                Query(
                    expr=f"slicewire_registrations_total{HERE}",
                    legend="registrations of {{resource}}",
                ),
            ),
        ),
    ),
)
PAGE = Dashboard(
    name="node",
    title="Node",
    says="One node: GPUs, slots and their holders, MIG instances, the kubelet.",
    rows=(HEAD, GPUS, PODS, HOLDERS, HARDWARE, KUBELET),
    variables=(
        Variable(name="node", label="Node", values="label_values(slicewire_gpu_info, node)"),
    ),
)
