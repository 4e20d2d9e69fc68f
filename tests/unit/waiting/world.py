"""Nodes and pods as values, for tests of verdicts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from shared.contract.generation import Generation
from shared.contract.messages import (
    ConfigState,
    Cuttable,
    DeviceCounts,
    Intent,
    Inventory,
    Ledger,
    LedgerRow,
    Phase,
    Progress,
    SlotCounts,
    Source,
    Stamp,
)
from shared.contract.waiting import NodeFact, Request, Waiting, WaitingPod
from shared.domain.gpu import Gpu, Health, HealthState, MigDevice, MigMode
from shared.domain.sharing import MigStrategy, Share, SharingConfig, SourceKind
from shared.domain.slots import Holder, SlotState
from shared.simulation.gpu import catalogue, cutting
from shared.waiting import verdict
from shared.waiting.node import NodeView
from shared.waiting.reasons import Verdict
from tests.support.hardware import gpu

SHARED = "nvidia.com/gpu.shared"
GPU = "nvidia.com/gpu"
GENERATION = Generation(1, 2)
SICK = Health(state=HealthState.SICK, reason="XID 79")
A100 = cutting.board(catalogue.model("a100-80gb"))
assert A100 is not None
SIZES = {"1g.10gb": 1, "2g.20gb": 2, "3g.40gb": 4, "4g.40gb": 4, "7g.80gb": 8}


def stamp(name: str, generation: Generation = GENERATION) -> Stamp:
    """Whoever wrote it."""
    return Stamp(node=name, writer="x/0.1.0/1", generation=generation)


def intent(name: str, **more: object) -> Intent:
    """A wish that names MIG devices by their profiles."""
    return Intent(
        stamp=stamp(name),
        sharing=SharingConfig(mig_strategy=MigStrategy.MIXED),
        source=Source(kind=SourceKind.ONLY),
        state=ConfigState.APPLIED,
        **more,  # type: ignore[arg-type]
    )


def node(
    name: str = "gpu-a",
    *,
    free: int = 0,
    held: Iterable[str] = (),
    retiring: int = 0,
    unhealthy: int = 0,
    resource: str = GPU,
    sick: bool = False,
    share: Mapping[str, object] | None = None,
    **more: object,
) -> NodeView:
    """A node whose one GPU has slots of one resource; pods in `held` hold one each."""
    card = dataclasses.replace(gpu(0, f"GPU-{name}"), health=SICK if sick else Health())
    pods = tuple(held)
    counts = SlotCounts(free=free, held=len(pods), retiring=retiring, unhealthy=unhealthy)
    offered = Share(
        uuid=card.uuid,
        gpu_uuid=card.uuid,
        gpu_index=0,
        resource=resource,
        replicas=max(counts.total, 1),
        **(share or {}),  # type: ignore[arg-type]
    )
    made = NodeView(
        name=name,
        intent=intent(name),
        inventory=inventory(name, (card,), (offered,)),
        ledger=Ledger(
            stamp=stamp(name),
            rows=tuple(
                LedgerRow(
                    slot=f"{card.uuid}::{number}",
                    resource=resource,
                    gpu_uuid=card.uuid,
                    state=SlotState.HELD,
                    holder=holder(pod),
                    trace=f"{number:032x}",
                )
                for number, pod in enumerate(pods)
            ),
            counts=(DeviceCounts(gpu_uuid=card.uuid, resource=resource, counts=counts),),
        ),
    )
    return dataclasses.replace(made, **more)  # type: ignore[arg-type]


def inventory(name: str, gpus: tuple[Gpu, ...], shares: tuple[Share, ...]) -> Inventory:
    """What the advertiser says."""
    return Inventory(
        stamp=stamp(name), driver_version="580", cuda_version=(13, 0), gpus=gpus, shares=shares
    )


def holder(pod: str) -> Holder:
    """A pod's only container."""
    namespace, _, name = pod.partition("/")
    return Holder(namespace, name, "main")


def cut(
    *layout: tuple[str, int, str],
    name: str = "gpu-a",
    phase: Phase = Phase.IDLE,
    enabled: bool = True,
) -> NodeView:
    """A node with an A100 that is cut into (profile, start, pod or "") under mixed names."""
    devices = tuple(
        MigDevice(
            index=number,
            uuid=f"MIG-{name}-{number}",
            profile=profile,
            gpu_instance=number,
            compute_instance=0,
            start=start,
            size=SIZES[profile],
            memory_mib=9728,
            multiprocessors=14,
            gpu_slices=1,
            compute_slices=1,
        )
        for number, (profile, start, _) in enumerate(layout)
    )
    mode = MigMode(current=enabled, pending=enabled)
    card = dataclasses.replace(gpu(0, f"GPU-{name}"), mig_mode=mode, mig_devices=devices)
    shares = tuple(
        Share(
            uuid=each.uuid,
            gpu_uuid=card.uuid,
            gpu_index=0,
            resource=f"nvidia.com/mig-{each.profile}",
            replicas=1,
        )
        for each in devices
    )
    pods = [pod for _, _, pod in layout]
    rows = tuple(
        LedgerRow(
            slot=each.uuid,
            resource=f"nvidia.com/mig-{each.profile}",
            gpu_uuid=card.uuid,
            state=SlotState.HELD,
            holder=holder(pod),
        )
        for each, pod in zip(devices, pods, strict=True)
        if pod
    )
    counts = []
    for profile in sorted({each.profile for each in devices}):
        mine = [pod for each, pod in zip(devices, pods, strict=True) if each.profile == profile]
        held = sum(bool(pod) for pod in mine)
        slots = SlotCounts(free=len(mine) - held, held=held)
        resource = f"nvidia.com/mig-{profile}"
        counts.append(DeviceCounts(gpu_uuid=card.uuid, resource=resource, counts=slots))
    return NodeView(
        name=name,
        intent=intent(name),
        inventory=inventory(name, (card,), shares),
        ledger=Ledger(stamp=stamp(name), rows=rows, counts=tuple(counts)),
        progress=progress(name, phase),
    )


def renamed(view: NodeView, resource: str) -> NodeView:
    """The same node with one name for all its devices, as strategy single has it."""
    assert view.inventory is not None
    assert view.ledger is not None
    return dataclasses.replace(
        view,
        inventory=dataclasses.replace(
            view.inventory,
            shares=tuple(
                dataclasses.replace(each, resource=resource) for each in view.inventory.shares
            ),
        ),
        ledger=dataclasses.replace(
            view.ledger,
            rows=tuple(dataclasses.replace(each, resource=resource) for each in view.ledger.rows),
            counts=tuple(
                dataclasses.replace(each, resource=resource) for each in view.ledger.counts
            ),
        ),
    )


def progress(name: str, phase: Phase) -> Progress:
    """What the agent says, with what its GPU can be cut into."""
    assert A100 is not None
    boards = (Cuttable(gpus=(f"GPU-{name}",), board=A100),)
    return Progress(stamp=stamp(name), phase=phase, sentence="it is so", boards=boards)


def pod(count: int = 1, resource: str = GPU, *, largest: int = 0, **more: object) -> WaitingPod:
    """A pod that waits for so many."""
    request = Request(resource=resource, count=count, largest=largest or count)
    settings: dict[str, object] = {
        "pod": "ml/waits",
        "uid": "1",
        "created_ns": 0,
        "phase": "Pending",
        "requests": (request,),
        "place": 0,
    }
    return WaitingPod(**(settings | more))  # type: ignore[arg-type]


def asked(waits: WaitingPod, *views: NodeView, place: tuple[str, ...] | None = None) -> Verdict:
    """The verdict on a pod that may go to all nodes, or to those in `place`."""
    nodes = {view.name: view for view in views}
    waiting = Waiting(
        stamp=stamp("_controller"), places=(tuple(nodes) if place is None else place,)
    )
    return verdict.Judge(nodes, waiting).of_pod(waits)


def fact(name: str = "gpu-a", **more: object) -> NodeFact:
    """What the API server says of a node."""
    return NodeFact(name=name, **more)  # type: ignore[arg-type]
