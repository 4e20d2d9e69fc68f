"""What `slicewire plan` shows to people: GPUs as bars of slices and of slots, labels, warnings."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from services.views import console as view
from services.views import layouts, planned
from shared.domain.sharing import Offer
from shared.geometry import board as geometry
from shared.geometry import plan as mig


def write(plan: planned.Plan, console: Console) -> None:
    """Write a plan for people: GPUs as bars of slots, then labels and warnings."""
    signs = view.marks(console)
    if plan.key:
        console.print(f"key {plan.key}")
    for board in plan.boards:
        gpu = board.gpu
        console.print(Text(f"GPU {gpu.index}  {board.model}  {gpu.uuid}", style="bold"))
        for line in _cut_lines(board):
            console.print(Text("  ").append_text(line))
        for offer in plan.offers:
            if offer.gpu_uuid == gpu.uuid:
                line = Text(f"  {_device(offer)}{offer.resource}  ")
                console.print(line.append_text(view.bar(_counts(plan, offer), signs)))
    console.print(Text("labels", style="bold"))
    for name, value in plan.labels.items():
        console.print(f"  {name}={value}")
    for pod in plan.evictions:
        console.print(Text("evicts   ", style="bold red").append(pod))
    for warning in plan.warnings:
        console.print(Text("warning  ", style="yellow").append(warning.sentence()))


def _cut_lines(board: planned.Board) -> Iterator[Text]:
    """Draw the layouts of a GPU before and after, one above the other, and say what else."""
    if board.cut is None or board.table is None:
        return
    steps, units = board.cut.plan, board.table.units
    before = [_cell(board.table, each, steps.destroy, layouts.GONE) for each in board.cut.before]
    after = [_cell(board.table, each, steps.create, layouts.NEW) for each in steps.after]
    wide = layouts.width((*before, *after))
    if before or not steps.empty:
        heading = "stays   " if steps.empty else "before  "
        yield Text(heading).append_text(layouts.bar(units, before, wide))
    if not steps.empty:
        yield Text("after   ").append_text(layouts.bar(units, after, wide))
    words = _needs(board) + _left_words(planned.unused(board))
    if words:
        yield Text("; ".join(words), style="dim")


def _cell(
    table: geometry.Board, instance: geometry.Instance, changed: geometry.Layout, sign: str
) -> layouts.Cell:
    size = table.profile(instance.profile).size
    mark = sign if instance in changed else layouts.KEPT
    return layouts.Cell(instance.profile, instance.start, size, mark)


def _needs(board: planned.Board) -> list[str]:
    if board.cut is None or board.cut.plan.mode is None:
        return []
    switch = f"MIG mode {'on' if board.cut.plan.mode else 'off'}"
    return [f"{switch}, with a reset of the GPU" if planned.reset(board) else switch]


def _left_words(left: mig.Unused) -> list[str]:
    parts = {"MiB": left.memory_mib, "slices": left.slices, "SMs": left.multiprocessors}
    said = [f"{count} {unit}" for unit, count in parts.items() if count]
    return [f"unused: {', '.join(said)}"] if said else []


def _device(offer: Offer) -> str:
    return "" if offer.uuid == offer.gpu_uuid else f"{offer.uuid}  "


def _counts(plan: planned.Plan, offer: Offer) -> dict[str, int]:
    taken = set(plan.holders.get(offer.resource, ()))
    held = sum(slot in taken for slot in offer.slots)
    counts = {
        "held": held,
        "free": len(offer.slots) - held,
        "retiring": len(offer.retiring),
    }
    return {state: count for state, count in counts.items() if count}
