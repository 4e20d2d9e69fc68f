"""Who holds a simulated node's GPUs: processes that compute, NVML's users, clients of the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.simulation.gpu.faults import FaultError
from shared.simulation.gpu.state import Gpu, Instance, Node, Process


@dataclass(frozen=True, slots=True)
class Holder:
    """A process, and the minor numbers of the GPUs whose device nodes it holds open."""

    pid: int
    name: str
    minors: tuple[int, ...]


def holders(node: Node) -> tuple[Holder, ...]:
    """List all holders by pid. An open NVML holds every GPU of the node."""
    held: dict[int, tuple[str, set[int]]] = {}
    for token in node.users():
        program, pid, _ = token.split(":", 2)
        held.setdefault(int(pid), (program, set()))[1].update(gpu.index for gpu in node.gpus)
    others = [(each.pid, each.name, each.gpu) for each in node.clients]
    others += [(each.pid, each.name, each.gpu) for each in node.processes]
    for number, name, gpu in others:
        held.setdefault(number, (name, set()))[1].add(gpu)
    return tuple(
        Holder(number, name, tuple(sorted(minors)))
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
        FaultError: the map is wrong, the device is not there or is full.
    """
    match dict(fields):
        case {"uuid": str(uuid), "pid": int(pid), "name": str(name), "memoryMiB": int(memory)}:
            gpu, instance = _device(node, uuid)
        case _:
            raise FaultError(f"process {dict(fields)!r}: write uuid, pid, name and memoryMiB")
    total = gpu.memory_mib if instance is None else instance.profile.memory_mib or 0
    free = total - node.memory_used(gpu, instance)
    if memory > free:
        raise FaultError(f"{uuid} has {free} MiB left, process {pid} wants {memory} MiB")
    return Process(gpu=gpu.index, uuid=uuid, pid=pid, name=name, memory_mib=memory)


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
