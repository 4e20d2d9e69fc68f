"""What `prepare` decides on and what it answers, as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from services.reconfigurer.controller import cordon, snapshot
from services.reconfigurer.controller.eviction import Answer, Later, Pod
from services.reconfigurer.controller.snapshot import Patch, Snapshot
from shared.contract.generation import NONE, Generation
from shared.contract.messages import Intent, Inventory, Ledger, Phase, Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the values say of a node that changes; `max_unavailable` is a number or a percentage."""

    cordon: cordon.Policy = cordon.Policy.BRIEF
    timeout_s: float = 300.0
    bare_pods: Answer = Answer.EVICT
    daemon_set_pods: Answer = Answer.EVICT
    max_unavailable: str = "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One look at a node that changes.

    `silent_s` is how long the agent has said nothing new, or how long it has been missed;
    `allowed` whether the rollout lets the node change; `later` evictions that were refused, by
    UID; `manager` is our own name as a field manager.
    """

    wanted: Intent
    progress: Progress | None
    node: Snapshot
    policy: Policy
    now: float
    manager: str
    silent_s: float = 0.0
    ledger: Ledger | None = None
    inventory: Inventory | None = None
    pods: tuple[Pod, ...] = ()
    allowed: bool = True
    later: Mapping[str, Later] = field(default_factory=dict)

    @property
    def newest(self) -> bool:
        """Whether the agent speaks of the newest generation."""
        generation = self.wanted.stamp.generation
        return self.progress is not None and self.progress.stamp.generation == generation

    @property
    def succeeded(self) -> bool:
        """Whether the agent says that the newest layout stands."""
        progress = self.progress
        return progress is not None and self.newest and progress.phase is Phase.SUCCESS

    @property
    def prepared(self) -> bool:
        """Whether the intent says that the demands of this very attempt are met."""
        demand = self.progress
        return (
            demand is not None
            and self.newest
            and self.wanted.prepared_for == demand.stamp.generation
            and self.wanted.prepared_order == demand.order
        )

    @property
    def held(self) -> bool:
        """Whether the allocator has acknowledged the hold of this very attempt."""
        demand, ledger = self.progress, self.ledger
        return (
            demand is not None
            and ledger is not None
            and ledger.held_for == demand.stamp.generation
            and ledger.held_order == demand.order
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt was given up by us."""

    reason: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What this process remembers of a node's change, in loop time; a successor starts anew."""

    generation: Generation = NONE
    order: int = 0
    began: float | None = None  # when we began to prepare the node
    holding: float | None = None  # when we began to wait for those who hold its slots
    cordoned: float | None = None  # since when the node has been seen cordoned
    over: float | None = None  # since when nothing of it goes on
    failure: Failure | None = None
    leaving: frozenset[str] = frozenset()  # UUIDs of MIG devices that the change is to destroy
    tries: int = 0  # given up so many times in this generation
    retry_at: float = 0.0

    @property
    def goes_on(self) -> bool:
        """Whether the node is being disturbed."""
        return self.began is not None or self.holding is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """What to do now. The patch comes first; if the node has changed meanwhile, nothing is done.

    `prepared` True writes that the demands are met, False that they are no longer. `waits` says
    for what, `blockers` for which pods and why; `ended` are pods that are in nobody's way any more,
    None where nobody looked; `rest` says that nothing of ours is on the node.
    """

    attempt: Attempt
    patch: Patch = snapshot.NOTHING
    prepared: bool | None = None
    evict: tuple[Pod, ...] = ()
    waits: str = ""
    blockers: tuple[tuple[str, str], ...] = ()  # pod, why
    ended: tuple[str, ...] | None = None
    rest: bool = False
