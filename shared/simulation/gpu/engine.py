"""The simulated node: answers calls, takes faults, says what it holds. No transport, no clock.

The owner process holds one behind its socket, unit tests hold one in the process; both wait and
delay for it: `ready` and `strike` say for what.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.nvml.errors import Code
from shared.simulation.gpu import answers, faults, handles
from shared.simulation.gpu.state import CallFault, Gpu, Instance, Node, Xid

FALLEN_OFF_THE_BUS = 79  # the XID after which a GPU no longer answers

Reply = tuple[int, list[Any]]


class Engine:
    """One node's GPUs as its driver would show them to any number of processes."""

    def __init__(self, name: str, gpus: tuple[Gpu, ...]) -> None:
        self._node = Node(name=name, gpus=gpus)

    # --------------------------------------------------------------------------------- calls

    def strike(self, symbol: str, args: list[Any]) -> CallFault | None:
        """Count a call against the faults in force, and return the one that it meets."""
        gpu = handles.gpu_of(self._node, symbol, args)
        struck = [fault for fault in self._node.faults if fault.strikes(symbol, gpu)]
        return struck[0] if struck else None

    def ready(self, symbol: str, args: list[Any]) -> bool:
        """Whether a call can be answered now; only waiting for events may have to wait."""
        if symbol != answers.WAIT:
            return True
        try:
            event_set = handles.event_set_behind(self._node, args[0])
        except handles.RefusedError:
            return True
        return bool(event_set.events) or any(
            self._node.gpus[index].lost for index in event_set.gpus
        )

    def answer(self, process: str, symbol: str, args: list[Any]) -> Reply:
        """Answer one call of a process: NVML's code, and the out-arguments where it succeeded."""
        if symbol not in answers.ANSWERS:
            return Code.FUNCTION_NOT_FOUND, []
        if symbol != answers.INIT and self._node.openings[process] <= 0:
            return Code.UNINITIALIZED, []
        try:
            return Code.SUCCESS, answers.ANSWERS[symbol](self._node, process, *args)
        except handles.RefusedError as refused:
            return refused.code, []

    def leave(self, process: str) -> None:
        """A process has ended: what it held of the driver is free again."""
        self._node.openings.pop(process, None)
        for number, event_set in list(self._node.event_sets.items()):
            if event_set.process == process:
                del self._node.event_sets[number]

    # -------------------------------------------------------------------------------- faults

    def fault(self, fault: Mapping[str, Any]) -> None:
        """Break something, as `faults` describes it.

        Raises:
            faults.FaultError: the map means nothing on this node.
        """
        match faults.read(fault, answers.ANSWERS):
            case faults.XidFault(index, xid, instance):
                gpu = self._gpu(index)
                self._report(Xid(index, xid, _mig_device(gpu, instance)))
                gpu.lost = gpu.lost or xid == FALLEN_OFF_THE_BUS
            case faults.LostFault(index):
                self._gpu(index).lost = True
            case CallFault() as broken:
                self._node.faults.append(broken)

    def heal(self, fault: Mapping[str, Any]) -> None:
        """Mend what the same map broke. An XID that is not 79 was over when it was reported.

        Raises:
            faults.FaultError: nothing is broken in this way.
        """
        match faults.read(fault, answers.ANSWERS):
            case faults.XidFault(index, xid, _):
                if xid == FALLEN_OFF_THE_BUS:
                    self._gpu(index).lost = False
            case faults.LostFault(index):
                self._gpu(index).lost = False
            case CallFault() as wanted:
                self._mend(wanted)

    def _mend(self, wanted: CallFault) -> None:
        same = [each for each in self._node.faults if _same(each, wanted)]
        if not same:
            raise faults.FaultError(f"no fault of {wanted.call} is in force in this form")
        for each in same:
            each.healed = True
            self._node.faults.remove(each)

    def _gpu(self, index: int) -> Gpu:
        if not 0 <= index < len(self._node.gpus):
            raise faults.FaultError(f"{self._node.name} has no GPU {index}")
        return self._node.gpus[index]

    def _report(self, event: Xid) -> None:
        """Have the event sets of this GPU hear it; one that holds a lost GPU hears nothing more."""
        for event_set in self._node.event_sets.values():
            deaf = any(self._node.gpus[index].lost for index in event_set.gpus)
            if event.gpu in event_set.gpus and not deaf:
                event_set.events.append(event)

    # ------------------------------------------------------------------------------- reading

    def describe(self) -> dict[str, Any]:
        """All that the node holds, for tests and the rehearsal's conditions."""
        return {
            "node": self._node.name,
            "gpus": [_describe_gpu(gpu) for gpu in self._node.gpus],
            "users": sum(count > 0 for count in self._node.openings.values()),
            "unheard": sum(len(each.events) for each in self._node.event_sets.values()),
            "faults": [fault.call for fault in self._node.faults],
        }


def _mig_device(gpu: Gpu, index: int | None) -> Instance | None:
    if index is None:
        return None
    for instance in gpu.instances:
        if instance.index == index:
            return instance
    raise faults.FaultError(f"GPU {gpu.index} has no MIG device {index}")


def _same(one: CallFault, other: CallFault) -> bool:
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("call", "gpu", "nth", "times", "code", "delay_s")
    )


def _describe_gpu(gpu: Gpu) -> dict[str, Any]:
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "model": gpu.model,
        "product": gpu.product,
        "memoryMiB": gpu.memory_mib,
        "lost": gpu.lost,
        "migMode": gpu.mig_mode,
        "instances": [
            {
                "index": instance.index,
                "uuid": instance.uuid,
                "profile": instance.profile.name,
                "start": instance.start,
                "size": instance.profile.size,
                "gpuInstance": instance.gpu_instance,
                "computeInstance": instance.compute_instance,
            }
            for instance in gpu.instances
        ],
    }
