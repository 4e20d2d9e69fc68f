"""Who holds a simulated node's GPUs: processes that compute, NVML's users, clients of the host."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.simulation.gpu import mps
from shared.simulation.gpu.faults import FaultError
from shared.simulation.gpu.state import Gpu, Instance, Node, Process

MOST_PERCENT = 100
HOST_CGROUP = "/system.slice/gpu.service"  # of what runs outside all pods


@dataclass(frozen=True, slots=True)
class Holder:
    """A process, and the minor numbers of the GPUs whose device nodes it holds open.

    `cgroup` is the path of its control group.
    """

    pid: int
    name: str
    minors: tuple[int, ...]
    cgroup: str = HOST_CGROUP


def holders(node: Node) -> tuple[Holder, ...]:
    """List all holders by pid. An open NVML holds every GPU of the node."""
    held: dict[int, tuple[str, set[int]]] = {}
    for token in node.users():
        program, pid, _ = token.split(":", 2)
        held.setdefault(int(pid), (program, set()))[1].update(gpu.index for gpu in node.gpus)
    others = [(each.pid, each.name, each.gpu) for each in node.clients]
    others += [(each.pid, each.name, each.gpu) for each in node.processes]
    others += [(each.pid, mps.SERVER, each.gpu) for each in mps.servers(node)]
    for number, name, gpu in others:
        held.setdefault(number, (name, set()))[1].add(gpu)
    cgroups = {each.pid: each.cgroup for each in node.processes if each.cgroup}
    return tuple(
        Holder(number, name, tuple(sorted(minors)), cgroups.get(number, HOST_CGROUP))
        for number, (name, minors) in sorted(held.items())
    )


def gpu_named(node: Node, which: str) -> Gpu:
    """Return the GPU with this index, UUID or bus id.

    Raises:
        FaultError: there is none.
    """
    for gpu in node.gpus:
        if which in (str(gpu.index), gpu.uuid, gpu.pci_bus_id):
            return gpu
    raise FaultError(f"{node.name} has no GPU {which}")


def process(node: Node, fields: Mapping[str, Any]) -> Process:
    """Make the process that a map describes; it takes memory of the device with its UUID.

    Raises:
        FaultError: the map is wrong, the device is not there, is full or takes MPS clients alone.
    """
    wanted = _described(fields)
    gpu, instance = _device(node, wanted.uuid)
    total = gpu.memory_mib if instance is None else instance.profile.memory_mib or 0
    free = total - node.memory_used(gpu, instance)
    if wanted.memory_mib > free:
        raise FaultError(
            f"{wanted.uuid} has {free} MiB left, process {wanted.pid} wants {wanted.memory_mib} MiB"
        )
    if instance is None:
        mps.admit(node, gpu, client=wanted.mps)
    return dataclasses.replace(wanted, gpu=gpu.index, since_us=node.now_us())


def _described(fields: Mapping[str, Any]) -> Process:
    """Read the map; on which GPU the device stands is found out afterwards."""
    match {"sm": 0, "cgroup": "", "mps": False, **fields}:
        case {
            "uuid": str(uuid),
            "pid": int(pid),
            "name": str(name),
            "memoryMiB": int(memory),
            "sm": int(percent),
            "cgroup": str(cgroup),
            "mps": bool(client),
        } if 0 <= percent <= MOST_PERCENT:
            return Process(
                gpu=0,
                uuid=uuid,
                pid=pid,
                name=name,
                memory_mib=memory,
                sm_percent=percent,
                cgroup=cgroup,
                mps=client,
            )
    raise FaultError(
        f"process {dict(fields)!r}: write uuid, pid, name, memoryMiB,"
        " and sm as 0 to 100, cgroup and mps where they matter"
    )


def end(node: Node, pid: int) -> None:
    """Take a process away.

    Raises:
        FaultError: there is none.
    """
    if all(each.pid != pid for each in node.processes):
        raise FaultError(f"no process {pid} computes on a GPU of {node.name}")
    node.processes = [each for each in node.processes if each.pid != pid]


def _device(node: Node, uuid: str) -> tuple[Gpu, Instance | None]:
    for gpu in node.gpus:
        if gpu.uuid == uuid and gpu.mig_mode:
            raise FaultError(f"{uuid} is in MIG mode: a process computes on one of its MIG devices")
        if gpu.uuid == uuid:
            return gpu, None
        for instance, compute in gpu.mig_devices:
            if compute.uuid == uuid:
                return gpu, instance
    raise FaultError(f"{node.name} has no device {uuid}")
