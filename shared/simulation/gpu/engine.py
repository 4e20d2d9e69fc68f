"""The simulated node: answers calls, takes faults, says what it holds. No transport, no waiting.

The owner process holds one behind its socket, unit tests hold one in the process; both wait and
delay for it: `ready`, `latency_s` and `strike` say for what.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from shared.nvml.errors import Code
from shared.runtime import clock
from shared.simulation.gpu import answers, description, faults, handles, holding, lifecycle, mps
from shared.simulation.gpu.state import (
    CallFault,
    Gpu,
    MigDevice,
    MpsDaemon,
    MpsDown,
    Node,
    StuckMode,
    Xid,
)

FALLEN_OFF_THE_BUS = 79  # the XID after which a GPU no longer answers
RESET = "nvidia-smi --gpu-reset"  # counted among the writing calls

T = TypeVar("T")

Reply = tuple[int, list[Any]]


class Engine:
    """One node's GPUs as its driver would show them to any number of processes.

    `latencies` are seconds that calls take, by symbol; real drivers take about one to destroy a
    GPU instance.
    """

    def __init__(
        self,
        name: str,
        gpus: tuple[Gpu, ...],
        latencies: Mapping[str, float] | None = None,
        *,
        now_ns: Callable[[], int] = clock.now_ns,
    ) -> None:
        self._node = Node(name=name, gpus=gpus, now_us=lambda: now_ns() // 1000)
        self._latencies = dict(latencies or {})

    # --------------------------------------------------------------------------------- calls

    def strike(self, symbol: str, args: list[Any]) -> CallFault | None:
        """Count a call against the faults in force, and return the one that it meets."""
        gpu = handles.gpu_of(self._node, symbol, args)
        self._node.calls[symbol] += 1
        if symbol in answers.WRITING and gpu is not None:
            self._node.writes[gpu, symbol] += 1
        struck = [fault for fault in self._node.faults if fault.strikes(symbol, gpu)]
        return struck[0] if struck else None

    def latency_s(self, symbol: str) -> float:
        """How long a call takes before it is answered."""
        return self._latencies.get(symbol, 0.0)

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

    # ------------------------------------------------------------------- reset, boot, processes

    def reset(self, which: str) -> tuple[str, Code]:
        """Reset the GPU with this index, UUID or bus id; return its bus id and NVML's code.

        Raises:
            faults.FaultError: there is no such GPU.
        """
        gpu = holding.gpu_named(self._node, which)
        self._node.writes[gpu.index, RESET] += 1
        try:
            lifecycle.reset(self._node, gpu)
        except handles.RefusedError as refused:
            return gpu.pci_bus_id, refused.code
        return gpu.pci_bus_id, Code.SUCCESS

    def reboot(self) -> None:
        """Boot the node anew; every process on it has ended."""
        lifecycle.reboot(self._node)

    def start_process(self, process: Mapping[str, Any]) -> None:
        """Have a process compute on a device: {uuid, pid, name, memoryMiB, sm, cgroup}.

        Raises:
            faults.FaultError: the device or the memory for it is not there.
        """
        self._node.processes.append(holding.process(self._node, process))

    def end_process(self, pid: int) -> None:
        """Have a process end, on whatever devices it computes.

        Raises:
            faults.FaultError: there is none.
        """
        holding.end(self._node, pid)

    def holders(self) -> tuple[holding.Holder, ...]:
        """Who holds device nodes open, as /proc would show it."""
        return holding.holders(self._node)

    # ------------------------------------------------------------------------------------ MPS

    def mps_begin(self, which: str, pid: int) -> MpsDaemon:
        """A control daemon begins to serve the GPU with this index, UUID or bus id.

        Raises:
            faults.FaultError: there is no such GPU, or daemons die here.
        """
        return mps.attach(self._node, holding.gpu_named(self._node, which), pid)

    def mps_end(self, daemon: MpsDaemon) -> None:
        """It has ended."""
        mps.detach(self._node, daemon)

    def mps_dies(self, daemon: MpsDaemon) -> bool:
        """Whether it has to die now."""
        booted = daemon not in self._node.mps
        return booted or mps.down(self._node, self._node.gpus[daemon.gpu])

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
            case faults.ClientsFault(clients):
                for client in clients:
                    self._gpu(client.gpu)
                self._node.clients += clients
            case MpsDown(gpu=which) as ends:
                if which is not None:
                    self._gpu(which)
                self._node.mps_down.append(ends)
            case StuckMode(gpu=which) as stuck:
                if which is not None:
                    self._gpu(which)
                self._node.stuck_modes.append(stuck)
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
            case faults.ClientsFault(clients):
                for client in clients:
                    _take(self._node.clients, client, f"client {client.name} holds no GPU")
            case MpsDown() as ends:
                _take(self._node.mps_down, ends, "no MPS daemon is down in this form")
            case StuckMode() as stuck:
                _take(self._node.stuck_modes, stuck, "no such mode stays pending")
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
        return description.of_node(self._node)


def _mig_device(gpu: Gpu, index: int | None) -> MigDevice | None:
    if index is None:
        return None
    for device in gpu.mig_devices:
        if device[1].index == index:
            return device
    raise faults.FaultError(f"GPU {gpu.index} has no MIG device {index}")


def _take(held: list[T], wanted: T, otherwise: str) -> None:
    if wanted not in held:
        raise faults.FaultError(otherwise)
    held.remove(wanted)


def _same(one: CallFault, other: CallFault) -> bool:
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("call", "gpu", "nth", "times", "code", "delay_s")
    )
