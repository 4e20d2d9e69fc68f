"""What this process remembers of nodes that change, and what follows from it: no I/O in here.

`drain` acts on it. Times are the loop's and come in as arguments.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from services.reconfigurer.controller import fleet, kube, outcome, prepare, rollout, snapshot
from services.reconfigurer.controller.attempt import Attempt, Failure, Policy, View
from services.reconfigurer.controller.eviction import Later
from services.reconfigurer.controller.outcome import Outcome, State
from services.reconfigurer.controller.rollout import Stage
from shared.contract.generation import NONE, Generation
from shared.contract.messages import Intent, Phase, Progress
from shared.telemetry import spans

AT_WORK = (Phase.HOLDING, Phase.APPLYING, Phase.REBOOTING)


@dataclass(eq=False, slots=True)
class Change:
    """One node's."""

    heard_at: float  # when the agent last said something
    attempt: Attempt = field(default_factory=Attempt)
    succeeded_at: float | None = None
    differs: str | None = None  # how allocatable devices differ; None before a look
    later: dict[str, Later] = field(default_factory=dict)  # refused evictions, by UID
    waits: str = ""  # for what, as it was logged last
    gave_up: Failure | None = None  # as it was logged last
    preparing: spans.Step | None = None
    answered: tuple[Generation, str] = (NONE, "")  # the last answer's generation and traceparent
    failed: Generation | None = None  # the newest generation that has failed here
    news: asyncio.Event = field(default_factory=asyncio.Event)  # the agent has said something
    followed: bool = False


class Changes:
    """All nodes', by name."""

    def __init__(self, fleet_: fleet.Fleet, policy: Policy) -> None:
        self._fleet = fleet_
        self._policy = policy
        self._by_node: dict[str, Change] = {}
        self._allowed: frozenset[str] = frozenset()
        self.queued: frozenset[str] = frozenset()  # those that `due` has found to wait for others

    def of(self, name: str, now: float) -> Change:
        """One node's; it begins with the first question."""
        if name not in self._by_node:
            self._by_node[name] = Change(heard_at=now)
        return self._by_node[name]

    def forget(self, name: str) -> None:
        """Let go of a node that has been gone for long."""
        self._by_node.pop(name, None)

    def view(self, name: str, node: snapshot.Snapshot, now: float) -> View:
        """What `prepare` decides on, without the node's pods."""
        change, received = self.of(name, now), self._fleet.progress.get(name)
        return View(
            wanted=self._fleet.intents[name],
            progress=received.value if received else None,
            node=node,
            policy=self._policy,
            now=now,
            manager=kube.AGENT,
            silent_s=now - change.heard_at,
            ledger=self._fleet.ledgers.get(name),
            inventory=self._fleet.inventories.get(name),
            allowed=name in self._allowed,
            later=change.later,
        )

    # ------------------------------------------------------------------ which nodes

    def due(self, now: float) -> Iterator[str]:
        """Say which nodes have to be looked at and are not, after deciding who may start."""
        stages = self._stages(now)
        self._allowed = rollout.may_start(stages, self._policy.max_unavailable)
        waiting = {name for name, stage in stages.items() if stage is Stage.WAITING}
        self.queued = frozenset(waiting - self._allowed)
        for name in self._fleet.intents:
            if not self.of(name, now).followed and self.needed(name, now):
                yield name

    @property
    def in_line(self) -> str:
        """Why a node waits; the same for all and for long, so that each is told once."""
        limit = self._policy.max_unavailable
        return (
            f"waits for its turn: mig.maxUnavailable is {limit}, and nodes that change or have"
            " failed count"
        )

    def needed(self, name: str, now: float) -> bool:
        """Whether a node has to be looked at now."""
        node = self._fleet.nodes.get(name)
        if node is None or name not in self._fleet.intents:
            return False
        received, change = self._fleet.progress.get(name), self.of(name, now)
        if prepare.marked(node.annotations):
            return True
        if received is None:
            return False
        phase = received.value.phase
        if phase is Phase.PREPARE:
            view = self.view(name, snapshot.Snapshot(name=name), now)
            return prepare.stage_of(view, change.attempt) is prepare.Stage.PREPARING
        return phase is Phase.HOLDING or (phase is Phase.SUCCESS and change.differs != "")

    def _stages(self, now: float) -> dict[str, Stage]:
        return {
            name: self._stage(name, wanted, now)
            for name, wanted in self._fleet.intents.items()
            if name in self._fleet.nodes and (wanted.mig_config or self._is_at_work(name, now))
        }

    def _is_at_work(self, name: str, now: float) -> bool:
        """Whether a change has not ended there, though another or none is wanted by now."""
        received = self._fleet.progress.get(name)
        works = received is not None and received.value.phase in AT_WORK
        marked = prepare.marked(self._fleet.nodes[name].annotations)
        return works or marked or self.of(name, now).attempt.goes_on

    def _stage(self, name: str, wanted: Intent, now: float) -> Stage:
        change, node = self.of(name, now), self._fleet.nodes[name]
        generation = wanted.stamp.generation
        received = self._fleet.progress.get(name)
        refused = outcome.refused(wanted, received.value if received else None)
        told = outcome.told(node, State.FAILED, generation) and not refused
        if told or change.failed == generation:
            return Stage.FAILED
        if self._is_at_work(name, now):
            return Stage.BEGUN
        if received is None or received.value.stamp.generation != generation:
            return Stage.SETTLED
        if received.value.phase is not Phase.PREPARE:
            return Stage.SETTLED
        return Stage.BEGUN if wanted.prepared_for == generation else Stage.WAITING

    # ------------------------------------------------------------------ where they stand

    def outcome(self, name: str, now: float) -> Outcome | None:
        """Say where a node's layout stands, and note when it fails and when it succeeds."""
        wanted = self._fleet.intents[name]
        change, received = self.of(name, now), self._fleet.progress.get(name)
        progress = received.value if received else None
        self._note_success(name, progress, now)
        attempt = change.attempt
        failure = attempt.failure if attempt.generation == wanted.stamp.generation else None
        waited = now - change.succeeded_at if change.succeeded_at is not None else 0.0
        found = outcome.of(wanted, progress, failure, change.differs, waited)
        if found and name in self.queued:
            found = outcome.in_line(found, self.in_line)
        former = self._fleet.outcomes.get(name)
        if former and outcome.goes_on(former, found, wanted):
            return former
        if found and found.state is State.FAILED:
            if failure or not outcome.refused(wanted, progress):
                change.failed = found.generation
        elif found and found.state is State.SUCCESS:
            change.failed = None
        return found

    def _note_success(self, name: str, progress: Progress | None, now: float) -> None:
        """Begin to compare allocatable devices when the agent says that the layout stands."""
        change = self.of(name, now)
        generation = self._fleet.intents[name].stamp.generation
        stands = progress is not None and progress.stamp.generation == generation
        if progress is None or not stands or progress.phase is not Phase.SUCCESS:
            change.succeeded_at = change.differs = None
        elif change.succeeded_at is None:
            change.succeeded_at = now
            node = self._fleet.nodes.get(name)
            if node and outcome.told(node, State.SUCCESS, generation):
                change.differs = ""  # a leader before us has looked
