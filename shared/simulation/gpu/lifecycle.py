"""What changes a simulated GPU: MIG mode, instances, reset and reboot, with the driver's refusals.

`mig_answers` calls these for NVML, `engine` for the control socket. A refusal is NVML's code.
"""

from __future__ import annotations

from shared.nvml.errors import Code
from shared.simulation.gpu import mps, rules
from shared.simulation.gpu.catalogue import ComputeProfile, Profile
from shared.simulation.gpu.handles import RefusedError, present
from shared.simulation.gpu.state import ComputeInstance, Gpu, Instance, Node, made_uuid


def set_mode(node: Node, caller: str, gpu: Gpu, *, on: bool) -> Code:
    """Ask for a MIG mode; what is returned says whether it is in force, or why it is pending.

    On a board that keeps the mode the driver tries a reset by itself, for which nobody but the
    caller may hold the GPU. Later boards need only be idle.
    """
    gpu.mig_pending = on
    if gpu.mig_mode == on:
        return Code.SUCCESS
    if gpu.instances or _held(node, gpu) or (gpu.keeps_mode and any(node.users(caller))):
        return Code.IN_USE
    if _stuck(node, gpu):
        return Code.RESET_REQUIRED
    gpu.mig_mode = on
    return Code.SUCCESS


def reset(node: Node, gpu: Gpu) -> None:
    """Reset a GPU: its instances are gone, a pending mode comes into force.

    Raises:
        RefusedError: IN_USE where anything at all holds it, GPU_IS_LOST.
    """
    present(gpu)
    if _held(node, gpu) or any(node.users()):
        raise RefusedError(Code.IN_USE)
    gpu.instances.clear()
    gpu.compute_mode = 0
    if _stuck(node, gpu) in ("", "reset"):
        gpu.mig_mode = gpu.mig_pending


def reboot(node: Node) -> None:
    """Boot the node anew: nothing runs, no instance is left, and the board's own mode is.

    Faults last until they are healed, so a lost GPU stays lost and clients start again.
    """
    node.boots += 1
    node.openings.clear()
    node.event_sets.clear()
    node.processes.clear()
    node.mps.clear()
    for gpu in node.gpus:
        gpu.instances.clear()
        gpu.compute_mode = 0
        if not gpu.keeps_mode:
            gpu.mig_mode = gpu.mig_pending = False
        elif _stuck(node, gpu) != "healed":
            gpu.mig_mode = gpu.mig_pending


def create(node: Node, gpu: Gpu, profile: Profile, start: int | None) -> Instance:
    """Make a GPU instance, where the driver likes if no start is given.

    Raises:
        RefusedError: as NVML refuses it.
    """
    refuse_without_mode(gpu)
    if not profile.published:
        raise RefusedError(Code.NOT_SUPPORTED)
    if start is not None and start not in profile.starts:
        raise RefusedError(Code.INVALID_ARGUMENT)
    if any(client.gpu == gpu.index for client in node.clients):
        raise RefusedError(Code.IN_USE)
    if start is None:
        start = rules.free_start(gpu, profile)
    if start is None or rules.unfit(gpu, profile, start):
        raise RefusedError(Code.INSUFFICIENT_RESOURCES)
    instance = Instance(
        serial=node.next_serial(),
        number=rules.gpu_instance_id(gpu, profile, start),
        profile=profile,
        start=start,
    )
    gpu.instances.append(instance)
    return instance


def destroy(gpu: Gpu, instance: Instance) -> None:
    """Take a GPU instance away.

    Raises:
        RefusedError: IN_USE while it has compute instances, which processes need to run.
    """
    if instance.compute:
        raise RefusedError(Code.IN_USE)
    gpu.instances.remove(instance)


def create_compute(
    node: Node, gpu: Gpu, instance: Instance, profile: ComputeProfile, start: int | None
) -> ComputeInstance:
    """Make a compute instance, and with it a MIG device under the lowest free index.

    Raises:
        RefusedError: as NVML refuses it.
    """
    if start is not None and start not in profile.starts:
        raise RefusedError(Code.INVALID_ARGUMENT)
    if start is None:
        start = rules.free_compute_start(instance, profile)
    if start is None or not rules.fits(instance, profile, start):
        raise RefusedError(Code.INSUFFICIENT_RESOURCES)
    serial = node.next_serial()
    number = _lowest_but({each.number for each in instance.compute})
    compute = ComputeInstance(
        serial=serial,
        number=number,
        profile=profile,
        start=start,
        index=_lowest_but({each.index for _, each in gpu.mig_devices}),
        uuid=f"MIG-{made_uuid(f'{gpu.uuid}/{instance.number}/{number}/{serial}')}",
    )
    instance.compute.append(compute)
    return compute


def destroy_compute(node: Node, gpu: Gpu, instance: Instance, compute: ComputeInstance) -> None:
    """Take a compute instance, and the MIG device that it makes, away.

    Raises:
        RefusedError: IN_USE while a process runs on it.
    """
    if node.computing_on(gpu, {compute.uuid}):
        raise RefusedError(Code.IN_USE)
    instance.compute.remove(compute)


def refuse_without_mode(gpu: Gpu) -> None:
    """Refuse what only a GPU in MIG mode can do."""
    if not gpu.mig_mode:
        raise RefusedError(Code.NOT_SUPPORTED)


def _held(node: Node, gpu: Gpu) -> bool:
    holding = {each.gpu for each in node.clients} | {each.gpu for each in mps.servers(node)}
    return bool(node.computing_on(gpu)) or gpu.index in holding


def _stuck(node: Node, gpu: Gpu) -> str:
    """Until what the GPU's mode stays pending; empty where nothing keeps it."""
    mine = [stuck.until for stuck in node.stuck_modes if stuck.gpu in (None, gpu.index)]
    return mine[0] if mine else ""


def _lowest_but(taken: set[int]) -> int:
    return next(number for number in range(len(taken) + 1) if number not in taken)
