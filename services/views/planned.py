"""What a sharing text would do to a set of GPUs: the answer of `slicewire plan`, as values.

Made by the very functions that the controller, the advertiser and the allocator use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from services.views import console as view
from shared.domain.errors import Problem
from shared.domain.gpu import Gpu
from shared.domain.sharing import MigStrategy, Offer, SharingConfig
from shared.sharing import expand, labels, shares

Holders = Mapping[str, Collection[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A GPU with its catalogue name and the compute slices it can be cut into, 0 if it cannot."""

    gpu: Gpu
    model: str
    slices: int = 0


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
) -> Plan:
    """Apply a config to GPUs with these holders.

    Raises:
        RefusedError: the text does not fit the GPUs.
    """
    gpus = tuple(board.gpu for board in boards)
    shared = shares.shares(gpus, config)
    return Plan(
        key=key,
        config=config,
        boards=boards,
        offers=expand.expand(shared.shares, holders),
        labels=labels.labels(gpus, shared.shares, config.mig_strategy),
        warnings=config.warnings + shared.warnings,
        holders=holders,
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
        "evictions": [],  # a sharing text never ends a pod
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
        "needs": {"modeChange": False, "reset": False},  # only a MIG layout asks for them
        "unused": _unused(plan.config.mig_strategy, board),
    }


def _unused(strategy: MigStrategy, board: Board) -> dict[str, int]:
    """What of a cut GPU no MIG device has; a GPU that is offered itself is all in use."""
    gpu = board.gpu
    if strategy is MigStrategy.NONE or not gpu.mig_enabled:
        return {"memoryMiB": 0, "slices": 0}
    return {
        "memoryMiB": gpu.memory_mib - sum(device.memory_mib for device in gpu.mig_devices),
        "slices": board.slices - sum(device.gpu_slices for device in gpu.mig_devices),
    }


def write(plan: Plan, console: Console) -> None:
    """Write a plan for people: GPUs as bars of slots, then labels and warnings."""
    signs = view.marks(console)
    if plan.key:
        console.print(f"key {plan.key}")
    for board in plan.boards:
        gpu = board.gpu
        console.print(Text(f"GPU {gpu.index}  {board.model}  {gpu.uuid}", style="bold"))
        for offer in plan.offers:
            if offer.gpu_uuid == gpu.uuid:
                line = Text(f"  {_device(offer)}{offer.resource}  ")
                console.print(line.append_text(view.bar(_counts(plan, offer), signs)))
    console.print(Text("labels", style="bold"))
    for name, value in plan.labels.items():
        console.print(f"  {name}={value}")
    for warning in plan.warnings:
        console.print(Text("warning  ", style="yellow").append(warning.sentence()))


def _device(offer: Offer) -> str:
    return "" if offer.uuid == offer.gpu_uuid else f"{offer.uuid}  "


def _counts(plan: Plan, offer: Offer) -> dict[str, int]:
    taken = set(plan.holders.get(offer.resource, ()))
    held = sum(slot in taken for slot in offer.slots)
    counts = {
        "held": held,
        "free": len(offer.slots) - held,
        "retiring": len(offer.retiring),
    }
    return {state: count for state, count in counts.items() if count}
