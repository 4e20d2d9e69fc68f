"""What the agent must not forget: the change in hand, what succeeded last, and what failed.

`change` makes these values, `journal` keeps them on disk over crashes and reboots. Pure.
"""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass

from services.reconfigurer.agent.plan import Goal, GpuPlan
from shared.contract import names
from shared.contract.generation import Generation
from shared.contract.messages import Cuttable
from shared.geometry.config import Wanted
from shared.nvml.clients import Client

UNKNOWN_BOOT = "unknown"


class Reason(enum.StrEnum):
    """Why something is not as it is wanted, in the one word that states and Events show."""

    REFUSED = names.MIG_REFUSED
    IN_USE = "InUse"  # somebody outside Kubernetes has the GPU
    HOLD_TIMEOUT = "HoldTimeout"  # pods did not go, or a service did not answer
    REBOOT_REQUIRED = "RebootRequired"
    NVML_FAILED = "NvmlFailed"
    GPU_UNAVAILABLE = "GpuUnavailable"
    DRIFT = "Drift"  # changed by hand, and policy is to leave it


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One GPU of a change: the first plan, what it was before, how often it went wrong and why."""

    plan: GpuPlan
    former: Wanted
    failures: int = 0
    reason: Reason | None = None
    sentence: str = ""
    clients: tuple[Client, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One attempt to bring GPUs to a goal.

    `prepared` is the generation for which the controller has met the demands; `held_ns` is since
    when the hold is out. `begun` is set before the first write, `step` before each. `abandoned`:
    the goal is no longer wanted, GPUs that are half cut go back. `ended` are pods, as
    namespace/name, that have ended: the allocator, which hears that from the kubelet late or not
    at all, is told with the hold.
    """

    order: int
    generation: Generation
    goal: Goal
    parts: tuple[Part, ...]
    slots: tuple[str, ...] = ()
    traceparent: str = ""
    prepared: Generation | None = None
    held_ns: int = 0
    ended: tuple[str, ...] = ()
    begun: bool = False
    rebooting: bool = False
    abandoned: bool = False
    step: str = ""

    @property
    def release_nvml(self) -> bool:
        """Whether a MIG mode changes, for which nobody else may have NVML open."""
        return any(part.plan.switches for part in self.parts)

    @property
    def quiet(self) -> bool:
        """Whether nobody can be disturbed: nothing that is there goes, and nothing is offered."""
        untouched = all(not part.plan.destroy for part in self.parts)
        return untouched and not self.slots and not self.release_nvml

    @property
    def recut(self) -> tuple[str, ...]:
        """UUIDs of its GPUs."""
        return tuple(part.plan.uuid for part in self.parts)

    @property
    def kept(self) -> tuple[str, ...]:
        """UUIDs of devices on its GPUs that stay and go on being served."""
        return tuple(device for part in self.parts for device in part.plan.kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a goal was not reached, and when it is tried again (ns; None: not by itself).

    `clients` are processes outside Kubernetes that were in the way.
    """

    goal: Goal
    reason: Reason
    sentence: str
    count: int = 1
    retry_ns: int | None = None
    clients: tuple[Client, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """A GPU that was left neither as wanted nor as before: it stays withheld but for `kept`."""

    uuid: str
    former: Wanted
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """All of it, as of one boot.

    `settled` is the goal that was reached last, `rebooted` are those that a boot was spent on.
    `order` is that of the newest attempt. `unshown` are UUIDs of GPUs that a change has cut and the
    inventory may not show yet: what it still offers of them is not there any more. `boards` are
    those of all GPUs, also of one that is lost before the next process can see it.
    """

    boot_id: str = UNKNOWN_BOOT
    change: Change | None = None
    settled: Goal | None = None
    failure: Failure | None = None
    closed: tuple[Closed, ...] = ()
    rebooted: tuple[Goal, ...] = ()
    order: int = 0
    unshown: tuple[str, ...] = ()
    boards: tuple[Cuttable, ...] = ()


def resumed(memory: Memory, boot_id: str) -> Memory:
    """Carry a memory into a new process; what failed is tried again at once.

    Instances do not survive a boot, so neither does a change, nor what was reached or failed.
    """
    if not memory.boot_id == boot_id != UNKNOWN_BOOT:
        return Memory(
            boot_id=boot_id, rebooted=memory.rebooted, order=memory.order, boards=memory.boards
        )
    failure = memory.failure
    if failure is not None and failure.retry_ns is not None:
        failure = dataclasses.replace(failure, retry_ns=0)
    return dataclasses.replace(memory, failure=failure)
