"""A MIG layout that would give what is asked for, without sending any pod away.

The agent plans a change in the same way, so what is proposed here is what would be done.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shared.contract.waiting import Request
from shared.domain import slots
from shared.domain.gpu import Gpu
from shared.domain.sharing import MigStrategy
from shared.geometry import plan, why
from shared.geometry.board import Board, Instance, Layout
from shared.geometry.config import Wanted
from shared.geometry.plan import Current, Plan, Standing
from shared.waiting import node
from shared.waiting.node import NodeView
from shared.waiting.reasons import Proposal

MOST_TRIED = 16  # GPUs: each may take some milliseconds


def propose(views: Iterable[NodeView], resource: str, count: int) -> Proposal | None:
    """Find the GPU that gives `count` slots with the fewest instances destroyed."""
    profile = node.profile_of(resource)
    if not profile:
        return None
    candidates = _candidates(views, profile)
    tries = itertools.islice(candidates, MOST_TRIED)
    found = [made for each in tries if (made := each.proposal(resource, count))]
    return min(found, key=_effort, default=None)


def fits_now(view: NodeView, request: Request) -> bool:
    """Whether a GPU that is in MIG mode has room for what is asked for, cut otherwise."""
    found = propose((view,), request.resource, request.count)
    return found is not None and not found.enables


def _effort(proposal: Proposal) -> tuple[bool, int, int, str, int]:
    destroyed, created = len(proposal.destroyed), len(proposal.created)
    return proposal.enables, destroyed, created, proposal.node, proposal.gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A GPU that might be cut anew; `profile` is its board's own name of the one asked for."""

    view: NodeView
    gpu: Gpu
    board: Board
    profile: str

    def proposal(self, resource: str, count: int) -> Proposal | None:
        """Plan for so many slots of a resource on the node; None where somebody would have to go.

        Idle instances of the profile count as they are, so what is asked for is the rest.
        """
        current = self._current()
        if current.holders or not all(self.board.find(each.profile) for each in _standing(current)):
            return None
        idle = sum(each.profile == self.profile for each in _idle(current))
        missing = count - self.view.slots(resource).free
        replicas = max((share.replicas for share in self.view.offers(resource)), default=1)
        demand = {self.profile: idle + max(-(-missing // replicas), 1)}
        try:
            after = plan.adding(self.board, current, demand).after
            layout = tuple(sorted(Counter(each.profile for each in after).items()))
            steps = plan.towards(self.board, current, Wanted(enabled=True, counts=layout))
        except why.InfeasibleError:
            return None
        return None if steps.blockers or steps.empty else self._told(layout, steps)

    def _current(self) -> Current:
        holders: dict[str, list[str]] = {}
        for row in self.view.rows:
            pod = row.holder.pod_key if row.holder else ""
            holders.setdefault(slots.device_of(row.slot), []).append(pod)
        return Current(
            enabled=self.gpu.mig_enabled,
            standing=tuple(
                Standing(Instance(each.profile, each.start), tuple(holders.get(each.uuid, ())))
                for each in self.gpu.mig_devices
            ),
            holders=tuple(holders.get(self.gpu.uuid, ())),
        )

    def _told(self, layout: tuple[tuple[str, int], ...], steps: Plan) -> Proposal:
        return Proposal(
            node=self.view.name,
            gpu=self.gpu.index,
            model=self.gpu.model,
            layout=layout,
            kept=_places(steps.keep),
            destroyed=_places(steps.destroy),
            created=_places(steps.create),
            enables=steps.mode is True,
        )


def _candidates(views: Iterable[NodeView], profile: str) -> Iterator[_Candidate]:
    """Healthy GPUs that know the profile, on nodes that name it as a resource: MIG mode first."""
    found = [
        _Candidate(view=view, gpu=gpu, board=board, profile=known.name)
        for view in views
        if view.intent and view.intent.sharing.mig_strategy is MigStrategy.MIXED
        for gpu in view.gpus
        if gpu.health.usable
        and (board := view.boards.get(gpu.uuid))
        and (known := board.find(profile))
    ]
    yield from sorted(found, key=lambda it: (not it.gpu.mig_enabled, it.view.name, it.gpu.index))


def _standing(current: Current) -> Iterator[Instance]:
    return (each.instance for each in current.standing)


def _idle(current: Current) -> Iterator[Instance]:
    return (each.instance for each in current.standing if not each.holders)


def _places(layout: Layout) -> tuple[str, ...]:
    return tuple(f"{each.profile} at {each.start}" for each in layout)
