"""What `change` decides by, and what it decides. Pure values.

`loop` gathers a `View` after each event and carries a `Decision` out, in this order: memory to
disk, hold and progress to the bus, then the act.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from services.reconfigurer.agent.memory import Memory, Reason
from services.reconfigurer.agent.plan import GpuPlan
from services.reconfigurer.agent.sight import GpuSight
from shared.contract.generation import Generation
from shared.contract.messages import Hold, Intent, Inventory, Ledger, Progress, Stamp
from shared.nvml.clients import Client

SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long things may take, in ns: a hold, and the waits before a goal is tried again."""

    hold_ns: int = 1800 * SECOND
    first_retry_ns: int = 30 * SECOND
    longest_retry_ns: int = 600 * SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Everything that is known; `stamp` is for what is published.

    `seen` is None while NVML is away. `clients` are those of the last failure's clients that are
    still there.
    """

    memory: Memory
    now_ns: int
    stamp: Stamp
    intent: Intent | None = None
    traceparent: str = ""
    inventory: Inventory | None = None
    ledger: Ledger | None = None
    seen: tuple[GpuSight, ...] | None = None
    clients: tuple[Client, ...] = ()
    limits: Limits = Limits()

    @property
    def generation(self) -> Generation:
        """The newest generation that is wanted."""
        return self.stamp.generation

    @property
    def sights(self) -> Mapping[str, GpuSight]:
        """The GPUs by UUID."""
        return {each.uuid: each for each in self.seen or ()}


@dataclass(frozen=True, slots=True)
class Apply:
    """Carry a plan out on its GPU."""

    plan: GpuPlan


@dataclass(frozen=True, slots=True)
class Reboot:
    """Boot the node anew."""


Act = Apply | Reboot


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is to be remembered, published and done.

    `said` and `hold` None leave alone what is published.
    """

    memory: Memory
    said: Progress | None = None
    hold: Hold | None = None
    act: Act | None = None
    wake_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of an act: no `reason` where all went well. `uuid` is empty for a reboot."""

    uuid: str = ""
    reason: Reason | None = None
    sentence: str = ""
    clients: tuple[Client, ...] = ()
