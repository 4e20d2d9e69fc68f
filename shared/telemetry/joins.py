"""Our series with those of NVIDIA's dcgm-exporter: queries, each with a recorded example.

DCGM measures GPUs and MIG instances; we know who holds which slot. `docs` prints these, and tests
evaluate them by promtool and on what a rehearsal shows to a real Prometheus. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

# A scrape that meets two processes of one service, as in an upgrade, finds a series twice.
HOLDERS = "max by (namespace, pod, container, uuid, slot) (slicewire_holder)"
INSTANCES = "max by (uuid, parent, gpu_instance, profile) (slicewire_mig_instance_info)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A question, its query, and what it makes of recorded series: all as Prometheus writes it."""

    title: str
    query: str
    series: tuple[tuple[str, float], ...]
    result: tuple[tuple[str, float], ...]


def renamed(query: str, label: str, theirs: str) -> str:
    """The query with one of DCGM's labels under our name."""
    return f'label_replace({query}, "{label}", "$1", "{theirs}", "(.+)")'


def _holder(pod: str, slot: str, parent: str, resource: str = "nvidia.com/gpu") -> str:
    uuid = slot.partition("::")[0]
    return (
        f'slicewire_holder{{node="n1",namespace="team",pod="{pod}",container="main",uuid="{uuid}",'
        f'parent="{parent}",slot="{slot}",resource="{resource}"}}'
    )


def _held(pod: str, slot: str, more: str = "") -> str:
    uuid = slot.partition("::")[0]
    place = f'namespace="team",pod="{pod}",container="main",uuid="{uuid}",slot="{slot}"'
    return "{" + place + more + "}"


def _instance(uuid: str, gpu_instance: int) -> str:
    return (
        f'slicewire_mig_instance_info{{node="n1",uuid="{uuid}",parent="GPU-b",'
        f'gpu_instance="{gpu_instance}",compute_instance="0",profile="3g.20gb"}}'
    )


def _dcgm(metric: str, gpu: str, more: str = "") -> str:
    return f'{metric}{{gpu="0",UUID="{gpu}",Hostname="n1",modelName="A100"{more}}}'


UTILIZATION = Join(
    title="How busy is the GPU of each container, also where several share it",
    query=f"{HOLDERS}\n  * on (uuid) group_left ()\n"
    f"    {renamed('max by (UUID) (DCGM_FI_DEV_GPU_UTIL)', 'uuid', 'UUID')}",
    series=(
        (_holder("train", "GPU-a::0", "GPU-a"), 1),
        (_holder("serve", "GPU-a::1", "GPU-a"), 1),
        (_dcgm("DCGM_FI_DEV_GPU_UTIL", "GPU-a"), 87),
        (_dcgm("DCGM_FI_DEV_GPU_UTIL", "GPU-c"), 3),
    ),
    result=((_held("train", "GPU-a::0"), 87), (_held("serve", "GPU-a::1"), 87)),
)

_ACTIVE = 'max by (UUID, GPU_I_ID) (DCGM_FI_PROF_GR_ENGINE_ACTIVE{GPU_I_ID!=""})'
INSTANCE_ACTIVITY = Join(
    title="How busy is the MIG instance of each container",
    query=f"{HOLDERS}\n  * on (uuid) group_left (parent, gpu_instance, profile)\n    {INSTANCES}\n"
    f"  * on (parent, gpu_instance) group_left ()\n"
    f"    {renamed(renamed(_ACTIVE, 'parent', 'UUID'), 'gpu_instance', 'GPU_I_ID')}",
    series=(
        (_holder("train", "MIG-2", "GPU-b", "nvidia.com/mig-3g.20gb"), 1),
        (_instance("MIG-1", 1), 1),
        (_instance("MIG-2", 2), 1),
        (_dcgm("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "GPU-b", ',GPU_I_ID="1"'), 0.1),
        (_dcgm("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "GPU-b", ',GPU_I_ID="2"'), 0.6),
    ),
    result=((_held("train", "MIG-2", ',parent="GPU-b",gpu_instance="2",profile="3g.20gb"'), 0.6),),
)

UNNAMED = Join(
    title="Which GPUs have several containers, of which DCGM can name one",
    query="count by (uuid) (count by (namespace, pod, container, uuid) (slicewire_holder)) > 1",
    series=(
        (_holder("train", "GPU-a::0", "GPU-a"), 1),
        (_holder("serve", "GPU-a::1", "GPU-a"), 1),
        (_holder("alone", "GPU-c::0", "GPU-c"), 1),
        (_holder("alone", "GPU-c::1", "GPU-c"), 1),
    ),
    result=(('{uuid="GPU-a"}', 2),),
)

JOINS = (UTILIZATION, INSTANCE_ACTIVITY, UNNAMED)
