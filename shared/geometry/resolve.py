"""A name of `nvidia.com/mig.config` to what each GPU of a node is to be, or why it cannot be.

Called by the agent with the boards that NVML shows and by `slicewire plan` with those of the
catalogue. All that can be refused is refused here, before anybody is disturbed.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from shared.domain.errors import Place, Problem
from shared.geometry import builtin, profiles, why
from shared.geometry.board import Board
from shared.geometry.config import GeometryConfig, Row, Share, Wanted
from shared.sharing import suggest, tree
from shared.sharing.findings import Findings


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A GPU of the node; `board` is None where it cannot do MIG."""

    index: int
    model: str  # as NVML has it, for sentences
    pci_device: int
    board: Board | None

    def __str__(self) -> str:
        return f"GPU {self.index} ({self.model})"


@dataclass(frozen=True, slots=True)
class Resolved:
    """What is wanted, by GPU index; a GPU that is not there stays as it is."""

    wanted: Mapping[int, Wanted]
    warnings: tuple[Problem, ...] = field(default=(), compare=False)


def resolve(config: GeometryConfig, name: str, targets: Iterable[Target]) -> Resolved:
    """Find what a name means for each GPU; a name of the text goes before a built-in one.

    Raises:
        RefusedError: there is no such name, it speaks of none of the GPUs, or of one that cannot
            be so; with the nearest layouts that fit.
    """
    gpus = tuple(targets)
    findings = Findings()
    if name not in config.names and not any(builtin.wanted(name, gpu.board) for gpu in gpus):
        _refuse_name(config, name, gpus, findings)
    found = _each(config, name, gpus, findings)
    findings.settle()
    matched = {index: each for index, each in found.items() if each is not None}
    _tell_unmatched(config, name, [gpu for gpu in gpus if gpu.index not in matched], findings)
    if not matched:
        message = f"no row of {name} matches a GPU of this node, nothing would be done"
        seen = suggest.listed(f"{gpu} 0x{gpu.pci_device:08X}" for gpu in gpus)
        findings.stop(_place(config, name), _path(name), message, f"the node has {seen}")
    able = {gpu.index for gpu in gpus if gpu.board is not None}  # the others have MIG off anyway
    wanted = {index: each for index, each in matched.items() if index in able}
    return Resolved(wanted, tuple(findings.warnings))


def _each(
    config: GeometryConfig, name: str, gpus: tuple[Target, ...], findings: Findings
) -> dict[int, Wanted | None]:
    """Find what is wanted of each GPU; what is wrong for GPUs of one model is told of the first."""
    found: dict[int, Wanted | None] = {}
    told: set[Problem] = set()
    for gpu in gpus:
        own = Findings()
        found[gpu.index] = _wanted(config, name, gpu, own)
        for problem in own.problems:
            of_model = problem.message.replace(str(gpu), gpu.model)
            kind = dataclasses.replace(problem, message=of_model)
            if kind not in told:
                findings.problems.append(problem)
            told.add(kind)
    return found


def _refuse_name(
    config: GeometryConfig, name: str, gpus: tuple[Target, ...], findings: Findings
) -> NoReturn:
    """Say that a name means nothing here, and which one was meant."""
    boards = [gpu.board for gpu in gpus if gpu.board is not None]
    if not boards and builtin.has_form(name):
        message = f"{name} is for GPUs that can do MIG, and this node has none"
        findings.stop(
            Place(), "mig-configs", message, f"the node has {suggest.listed(map(str, gpus))}"
        )
    known = tuple(dict.fromkeys((*config.names, *builtin.names(boards))))
    near = builtin.nearest(name, boards)
    hint = f'did you mean "{near}"?' if near else suggest.did_you_mean(name, known)
    message = f"there is no MIG config {suggest.shorten(name)}"
    listing = f"{hint} there are {suggest.listed(known)}".strip()
    findings.stop(Place(), "mig-configs", message, listing)


def _wanted(config: GeometryConfig, name: str, gpu: Target, findings: Findings) -> Wanted | None:
    if name not in config.names:
        return builtin.wanted(name, gpu.board)
    rows = [row for row in config.names[name] if row.matches(gpu.index, gpu.pci_device)]
    return _of_row(rows[-1], gpu, findings) if rows else None


def _of_row(row: Row, gpu: Target, findings: Findings) -> Wanted | None:
    if not row.enabled:
        return Wanted(enabled=False)
    if gpu.board is None:
        hint = "name the others in devices, or by a device-filter"
        findings.add(row.place, row.path, f"{gpu} cannot do MIG", hint)
        return None
    counts: Counter[str] = Counter()
    names = [_name(share, row, gpu, gpu.board, findings) for share in row.shares]
    for share, name in zip(row.shares, names, strict=True):
        if name:
            counts[name] += share.count
    if all(names):
        _check_fit(row, gpu, gpu.board, counts, findings)
    return Wanted(enabled=True, counts=tuple(sorted((+counts).items())))


def _name(share: Share, row: Row, gpu: Target, board: Board, findings: Findings) -> str:
    """Return the name that the board itself has for a profile, "" after a mistake is reported."""
    found = board.find(share.profile)
    path = tree.below(f"{row.path}.mig-devices", share.profile)
    parsed = profiles.parse(share.profile)
    if found is None:
        known = [profile.name for profile in board.profiles]
        hint = f'did you mean "{profiles.nearest(share.profile, known)}"?'
        message = f"{gpu} has no profile {share.profile}, it has {suggest.listed(known)}"
        findings.add(share.place, path, message, hint)
        return ""
    if parsed is not None and parsed.compute is not None:
        message = (
            f"{share.profile} is a part of a GPU instance, and such parts are never advertised"
        )
        findings.add(share.place, path, message, f"write {found.name}")
        return ""
    return found.name


def _check_fit(
    row: Row, gpu: Target, board: Board, counts: Counter[str], findings: Findings
) -> None:
    reason = why.reason(board, counts)
    if reason:
        refused = why.InfeasibleError(reason, why.nearest(board, counts))
        path = f"{row.path}.mig-devices"
        place = row.shares[0].place if row.shares else row.place
        findings.add(place, path, f"{gpu}: {reason}", refused.suggestion)


def _tell_unmatched(
    config: GeometryConfig, name: str, unmatched: Iterable[Target], findings: Findings
) -> None:
    place = _place(config, name)
    for gpu in unmatched:
        message = f"{name} says nothing of {gpu}: its geometry stays as it is"
        findings.warn(place, _path(name), message)


def _path(name: str) -> str:
    return tree.below("mig-configs", name)


def _place(config: GeometryConfig, name: str) -> Place:
    rows = config.names.get(name)
    return rows[0].place if rows else Place()
