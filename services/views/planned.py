"""What texts would do to a set of GPUs: the answer of `slicewire plan`, as values.

Made by the very functions that the controller, the advertiser and the allocator use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from services.views import health_rules
from shared.domain.errors import Problem
from shared.domain.gpu import Gpu
from shared.domain.sharing import Offer, SharingConfig
from shared.geometry import board as geometry
from shared.geometry import plan as mig
from shared.sharing import expand, labels, shares

Holders = Mapping[str, Collection[str]]
_TOGGLES_WITHOUT_RESET = (9, 0)  # compute capability of Hopper


@dataclass(frozen=True, slots=True)
class Cut:
    """What a MIG config does to a GPU with the layout `before`."""

    before: geometry.Layout
    plan: mig.Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A GPU as it would be, with its catalogue name and what it can be cut into.

    `table` is None where it cannot do MIG, `cut` where no MIG config was given.
    """

    gpu: Gpu
    model: str
    table: geometry.Board | None = None
    cut: Cut | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What would be offered and labelled, GPUs in index order."""

    key: str
    config: SharingConfig
    boards: tuple[Board, ...]
    offers: tuple[Offer, ...]
    labels: Mapping[str, str]
    warnings: tuple[Problem, ...]
    holders: Holders
    evictions: tuple[str, ...] = ()

    @property
    def resources(self) -> dict[str, int]:
        """Slots per resource, as the kubelet would count them."""
        counts: Counter[str] = Counter()
        for offer in self.offers:
            counts[offer.resource] += len(offer.slots)
        return dict(sorted(counts.items()))


def make(
    key: str,
    config: SharingConfig,
    boards: tuple[Board, ...],
    holders: Holders,
    evictions: tuple[str, ...] = (),
    *,
    forms: expand.Forms = expand.AS_OFFERED,
) -> Plan:
    """Apply a config to GPUs with these holders, in the forms in which they hold.

    Raises:
        RefusedError: the text does not fit the GPUs.
    """
    gpus = tuple(board.gpu for board in boards)
    shared = shares.shares(gpus, config)
    return Plan(
        key=key,
        config=config,
        boards=boards,
        offers=expand.expand(shared.shares, holders, forms),
        labels=labels.labels(gpus, shared.shares, config.mig_strategy),
        warnings=config.warnings + shared.warnings,
        holders=holders,
        evictions=evictions,
    )


def form(plan: Plan) -> dict[str, Any]:
    """Write a plan as the JSON object that other programs read."""
    return {
        "ok": True,
        "errors": [],
        "warnings": [problem_form(problem) for problem in plan.warnings],
        "key": plan.key,
        "resources": plan.resources,
        "labels": dict(plan.labels),
        "gpus": [_gpu_form(plan, board) for board in plan.boards],
        "evictions": list(plan.evictions),  # a sharing text alone never ends a pod
        **health_rules.form(plan.config.health),
    }


def problem_form(problem: Problem) -> dict[str, Any]:
    """Write a problem as its five fields."""
    return {
        "path": problem.path,
        "line": problem.line,
        "column": problem.column,
        "message": problem.message,
        "suggestion": problem.suggestion,
    }


def _gpu_form(plan: Plan, board: Board) -> dict[str, Any]:
    gpu = board.gpu
    geometry_form = {} if board.cut is None else {"geometry": _geometry(board.cut)}
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "model": board.model,
        "offers": [
            {
                "resource": offer.resource,
                "slots": list(offer.slots),
                "retiring": list(offer.retiring),
            }
            for offer in plan.offers
            if offer.gpu_uuid == gpu.uuid
        ],
        **geometry_form,
        "needs": {"modeChange": mode_change(board), "reset": reset(board)},
        "unused": _unused(board),
    }


def _geometry(cut: Cut) -> dict[str, Any]:
    layouts = {
        "before": cut.before,
        "after": cut.plan.after,
        "kept": cut.plan.keep,
        "destroyed": cut.plan.destroy,
        "created": cut.plan.create,
    }
    return {
        name: [{"profile": each.profile, "start": each.start} for each in layout]
        for name, layout in layouts.items()
    }


def mode_change(board: Board) -> bool:
    """Whether MIG mode would be switched."""
    return board.cut is not None and board.cut.plan.mode is not None


def reset(board: Board) -> bool:
    """Whether the switch needs a reset of the GPU: up to Ampere it does."""
    return mode_change(board) and board.gpu.compute_capability < _TOGGLES_WITHOUT_RESET


def unused(board: Board) -> mig.Unused:
    """What of a cut GPU no MIG device has."""
    if board.table is None or not board.gpu.mig_enabled:
        return mig.Unused()
    devices = board.gpu.mig_devices
    return mig.unused(
        board.table, [geometry.Instance(each.profile, each.start) for each in devices]
    )


def _unused(board: Board) -> dict[str, int | None]:
    left = unused(board)
    form = {"memoryMiB": left.memory_mib, "slices": left.slices}
    return form | ({"multiprocessors": left.multiprocessors} if board.gpu.mig_enabled else {})
