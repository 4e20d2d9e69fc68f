"""Which of the free slots to propose: GetPreferredAllocation's answer. Pure, no NVML.

Whatever order the kubelet names ids in, the same sets give the same answer. Slots are taken one
by one from the GPU that the policy ranks first, and of its MIG devices from the one that it ranks
first; whole GPUs are kept on one NUMA node instead.
"""

from __future__ import annotations

import heapq
import operator
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from services.allocator.standing import Slot, places
from shared.domain.sharing import AllocationPolicy

NOWHERE: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class Request:
    """What the kubelet asks for one container."""

    available: frozenset[str]  # what it counts as free, and what it has decided on
    must_include: frozenset[str]  # what it has decided on already
    size: int


class NotEnoughGpusError(Exception):
    """The policy wants each slot on another GPU, and there are not so many."""


def prefer(
    slots: Mapping[str, Slot],
    request: Request,
    policy: AllocationPolicy,
    elsewhere: Mapping[str, int] = NOWHERE,
) -> tuple[str, ...]:
    """Choose `size` ids of `available`, `must_include` first; fewer where no more are healthy.

    Args:
        slots: the resource's slots in the standing's order, which breaks ties.
        request: what the kubelet asks; ids unknown to us are passed over.
        policy: which GPU comes first, and which of its MIG devices.
        elsewhere: how many slots of other resources are taken, by GPU and by MIG device.

    Raises:
        NotEnoughGpusError: policy distinct, and fewer GPUs than slots wanted.
    """
    kept = [slot for slot in slots.values() if slot.id in request.must_include]
    free = request.available - request.must_include
    ready = [
        slot for slot in slots.values() if slot.id in free and slot.listed and not slot.trouble
    ]
    missing = max(0, request.size - len(kept))
    used = _used(slots.values(), free)
    used.update(elsewhere)
    if policy is AllocationPolicy.DISTINCT:
        chosen = _distinct(ready, kept, missing, used)
    elif all(slot.id == slot.device.gpu_uuid for slot in ready):
        chosen = _near(ready, kept, missing)
    else:
        chosen = _spread(ready, missing, used, policy)
    return tuple(slot.id for slot in (*kept, *chosen))


def refuse_unless_distinct(gpus_needed: int, gpus_there: int) -> None:
    """Raise NotEnoughGpusError with the sentence that people see, if there are too few GPUs."""
    if gpus_there < gpus_needed:
        raise NotEnoughGpusError(
            f"{gpus_needed} distinct GPUs needed, {gpus_there} available;"
            " ask for fewer slots or set slicewire.allocationPolicy to distributed"
        )


def _spread(
    ready: list[Slot], missing: int, used: Counter[str], policy: AllocationPolicy
) -> list[Slot]:
    """One slot at a time from the GPU with the fewest used (packed: most), then lowest index."""
    sign = -1 if policy is AllocationPolicy.PACKED else 1
    queues = _by_gpu(ready, used, policy)
    heap = [(sign * used[gpu], queue[-1].device.gpu_index, gpu) for gpu, queue in queues.items()]
    heapq.heapify(heap)
    chosen: list[Slot] = []
    while heap and len(chosen) < missing:
        rank, index, gpu = heapq.heappop(heap)
        chosen.append(queues[gpu].pop())
        if queues[gpu]:
            heapq.heappush(heap, (rank + sign, index, gpu))
    return chosen


def _distinct(ready: list[Slot], kept: list[Slot], missing: int, used: Counter[str]) -> list[Slot]:
    taken = {slot.device.gpu_uuid for slot in kept}
    by_gpu = _by_gpu(ready, used, AllocationPolicy.DISTINCT)
    queues = {gpu: queue for gpu, queue in by_gpu.items() if gpu not in taken}
    refuse_unless_distinct(missing + len(kept), len(queues) + len(taken))
    firsts = [queue[-1] for queue in queues.values()]
    firsts.sort(key=lambda slot: (used[slot.device.gpu_uuid], slot.device.gpu_index))
    return firsts[:missing]


def _near(ready: list[Slot], kept: list[Slot], missing: int) -> list[Slot]:
    """Whole GPUs: beside those decided on, then on the fullest node that has room for all.

    Where no node has room, the emptiest node comes first, so that as few as possible are joined.
    """
    beside = {slot.device.numa_node for slot in kept}
    room = Counter(slot.device.numa_node for slot in ready)

    def rank(slot: Slot) -> tuple[bool, bool, int, int, int]:
        node = slot.device.numa_node
        fits = room[node] >= missing
        order = room[node] if fits else -room[node]
        return node not in beside, not fits, order, -1 if node is None else node, _index(slot)

    return sorted(ready, key=rank)[:missing]


def _index(slot: Slot) -> int:
    return slot.device.gpu_index


def _by_gpu(
    ready: Iterable[Slot], used: Counter[str], policy: AllocationPolicy
) -> dict[str, list[Slot]]:
    """Free slots of each GPU, the first to take last, so that taking one is a pop."""
    devices: dict[str, dict[str, list[Slot]]] = {}
    for slot in ready:
        of_gpu = devices.setdefault(slot.device.gpu_uuid, {})
        of_gpu.setdefault(slot.device.uuid, []).append(slot)
    queues = {gpu: _in_turn(of_gpu, used, policy) for gpu, of_gpu in devices.items()}
    for queue in queues.values():
        queue.reverse()
    return queues


def _in_turn(
    devices: Mapping[str, list[Slot]], used: Counter[str], policy: AllocationPolicy
) -> list[Slot]:
    """Slots of one GPU in the order of taking: of its devices, too, the fewest used (or most).

    Where each slot taken counts, the n-th free one of a device comes when n more are used there.
    """
    if len(devices) == 1:  # a GPU that is not cut, with thousands of slots perhaps
        return next(iter(devices.values()))
    if policy is AllocationPolicy.PACKED:
        fullest = sorted(devices, key=lambda uuid: -used[uuid])
        return [slot for uuid in fullest for slot in devices[uuid]]
    turns = [
        (used[uuid] + taken, slot)
        for uuid, slots in devices.items()
        for taken, slot in enumerate(slots)
    ]
    turns.sort(key=operator.itemgetter(0))
    return [slot for _, slot in turns]


def _used(slots: Iterable[Slot], free: Collection[str]) -> Counter[str]:
    """Slots taken, by the kubelet's own account: it frees them before List shows it.

    Only of slots that are not handed out now does the ledger say whether somebody has them.
    """
    return places(
        slot for slot in slots if slot.id not in free and (slot.taken or not slot.trouble)
    )
