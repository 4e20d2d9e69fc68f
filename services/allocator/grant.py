"""What the kubelet asks to allocate → a refusal in a sentence, or what the container gets. Pure.

The answer is environment and plain device nodes, which need no help of the container runtime, and
under MPS the folders through which a client and its daemon meet. `plugin` writes it as gRPC.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from services.allocator import preference
from services.allocator.hardware import Device
from services.allocator.standing import Rules, Slot
from shared.contract import mps
from shared.domain.sharing import AllocationPolicy, Strategy

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
MPS_PIPE = "CUDA_MPS_PIPE_DIRECTORY"
CONTROL_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")


class InvalidRequestError(Exception):
    """The request could never be granted as it stands."""


class WithheldError(Exception):
    """The request names slots that are not handed out now."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one container gets: environment; device nodes and folders as (inside, on the host)."""

    envs: Mapping[str, str]
    nodes: tuple[tuple[str, str], ...]
    folders: tuple[tuple[str, str], ...] = ()


def answer(
    resource: str,
    ids: Sequence[str],
    slots: Mapping[str, Slot],
    rules: Rules,
    on_host: Callable[[str], str] = str,
) -> Answer:
    """Check one container's ids against the standing and say what the container gets.

    `on_host` says where the host has what stands under a path in containers.

    Raises:
        InvalidRequestError: unknown ids, more slots than the sharing text allows at once, or
            slots of several GPUs under MPS.
        WithheldError: a slot is unhealthy, withheld or retiring.
        NotEnoughGpusError: policy distinct, and two of the slots are on one GPU.
    """
    _refuse_unknown(resource, ids, slots)
    _refuse_more_than_one(resource, ids, rules)
    wanted = [slots[slot_id] for slot_id in ids]
    _refuse_withheld(wanted)
    devices = _devices(wanted)
    if rules.policy is AllocationPolicy.DISTINCT:
        gpus = {device.gpu_uuid for device in devices}
        preference.refuse_unless_distinct(len(set(ids)), len(gpus))
    envs = {VISIBLE_DEVICES: ",".join(device.uuid for device in devices)}
    folders: tuple[tuple[str, str], ...] = ()
    if any(slot.strategy is Strategy.MPS for slot in wanted):
        _refuse_several_daemons(resource, devices)
        pipe = f"{mps.ROOT}/{devices[0].gpu_uuid}/{mps.PIPE}"
        envs[MPS_PIPE] = pipe
        folders = ((pipe, on_host(pipe)), ("/dev/shm", on_host(f"{mps.ROOT}/{mps.SHM}")))  # noqa: S108  # the client's
    return Answer(envs=envs, nodes=_nodes(devices, on_host), folders=folders)


def refuse_twice(resource: str, containers: Sequence[Sequence[str]]) -> None:
    """Raise InvalidRequestError if one request names a slot for two containers, or twice for one.

    A kubelet does not; who does would put two containers on a slot that counts as one.
    """
    named = Counter(slot_id for ids in containers for slot_id in ids)
    twice = [slot_id for slot_id, times in named.items() if times > 1]
    if twice:
        raise InvalidRequestError(
            f"{resource}: one request names slot {twice[0]} {named[twice[0]]} times; a slot is one"
            " container's, delete the pod so that it is placed again"
        )


def _refuse_unknown(resource: str, ids: Sequence[str], slots: Mapping[str, Slot]) -> None:
    unknown = [slot_id for slot_id in ids if slot_id not in slots]
    if unknown:
        more = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
        raise InvalidRequestError(
            f"{resource} has no slot {unknown[0]!r}{more} on this node; the kubelet's list is older"
            " than ours, delete the pod so that it is placed again"
        )


def _refuse_more_than_one(resource: str, ids: Sequence[str], rules: Rules) -> None:
    if rules.one_only and len(ids) > 1:
        raise InvalidRequestError(
            f"{resource}: {len(ids)} slots requested, the limit is 1, because"
            f" {rules.one_only} is true; request 1 (more slots give no more of the GPU)"
        )


def _refuse_several_daemons(resource: str, devices: Sequence[Device]) -> None:
    if len(devices) > 1:
        raise InvalidRequestError(
            f"{resource}: slots of {len(devices)} GPUs requested, but each GPU has an MPS daemon of"
            " its own and a container can be the client of one; request 1"
        )


def _refuse_withheld(wanted: Sequence[Slot]) -> None:
    withheld = next((slot for slot in wanted if slot.trouble), None)
    if withheld is not None:
        raise WithheldError(
            f"slot {withheld.id} of {withheld.resource} is not handed out: {withheld.trouble};"
            " delete the pod so that it is placed again"
        )


def _devices(wanted: Sequence[Slot]) -> tuple[Device, ...]:
    """Each device once, by GPU index and then by UUID, whatever the order of the ids."""
    unique = {slot.device.uuid: slot.device for slot in wanted}
    return tuple(sorted(unique.values(), key=lambda device: (device.gpu_index, device.uuid)))


def _nodes(devices: Sequence[Device], on_host: Callable[[str], str]) -> tuple[tuple[str, str], ...]:
    """A MIG device's container needs its parent's node, and those that guard its instance."""
    gpus = dict.fromkeys(f"/dev/nvidia{device.minor}" for device in devices)
    guards = dict.fromkeys(node for device in devices for node in device.nodes)
    paths = (*gpus, *guards, *CONTROL_NODES)
    return tuple((path, on_host(path)) for path in paths)
