"""What `slicewire plan` shows to people: GPUs as bars of slices and of slots, labels, warnings."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from rich.text import Text

from services.views import bars, health_rules, layouts, planned
from services.views import console as view
from services.views.page import Page
from shared.domain.health import HealthRules
from shared.domain.sharing import Offer
from shared.geometry import board as geometry
from shared.geometry import plan as mig
from shared.sharing import labels

BELOW = 2  # indent of what belongs to a GPU
BEFORE = "before  "
LEAST_WIDE = 5  # characters of a slice: `[+1g]`
BAR_WIDTH = {True: 16, False: bars.WIDTH}


def draw(plan: planned.Plan, page: Page) -> Iterator[Text]:
    """Draw a plan for people: GPUs as bars of slots, then labels and warnings."""
    if plan.key:
        yield Text(f"key {plan.key}")
    for board in plan.boards:
        gpu = board.gpu
        heads = (f"GPU {gpu.index}", board.model, gpu.uuid)
        yield from page.flow([Text(each, style="bold") for each in heads], 0, BELOW)
        yield from _cut_lines(board, page)
        for offer in plan.offers:
            if offer.gpu_uuid == gpu.uuid:
                yield from page.flow(_offer(plan, offer, page), BELOW, 2 * BELOW)
    yield Text("labels", style="bold")
    for name, value in labels.of_sharing(plan.labels).items():
        yield Text(f"  {name}={value}")
    yield from _health(plan.config.health, page)
    for pod in plan.evictions:
        yield Text("evicts   ", style="bold red").append(pod)
    for warning in plan.warnings:
        said = Text("warning  ", style="yellow").append(warning.sentence(), "default")
        yield from page.flow([said], 0, BELOW)


def _health(rules: HealthRules, page: Page) -> Iterator[Text]:
    """Say what the text's health rules mean, where it has any."""
    for number, sentence in enumerate(health_rules.sentences(rules)):
        if not number:
            yield Text("health", style="bold")
        yield from page.flow([Text(sentence)], BELOW, 2 * BELOW)


def _offer(plan: planned.Plan, offer: Offer, page: Page) -> list[Text]:
    device = [] if offer.uuid == offer.gpu_uuid else [Text(offer.uuid)]
    drawn = view.bar(_counts(plan, offer), page.signs, width=BAR_WIDTH[page.narrow])
    return [*device, Text(offer.resource), drawn]


def _cut_lines(board: planned.Board, page: Page) -> Iterator[Text]:
    """Draw the layouts of a GPU before and after, one above the other, and say what else."""
    if board.cut is None or board.table is None:
        return
    steps, units = board.cut.plan, board.table.units
    before = [_cell(board.table, each, steps.destroy, layouts.GONE) for each in board.cut.before]
    after = [_cell(board.table, each, steps.create, layouts.NEW) for each in steps.after]
    room = page.room(BELOW + len(BEFORE))
    if room is not None and layouts.width((*before, *after)) * units > room:
        before, after = _short(before), _short(after)
    wide = layouts.width((*before, *after))
    if room is not None:
        wide = min(wide, max(room // units, LEAST_WIDE))
    if before or not steps.empty:
        heading = "stays" if steps.empty else "before"
        yield _headed(heading, layouts.bar(units, before, wide))
    if not steps.empty:
        yield _headed("after", layouts.bar(units, after, wide))
    words = _needs(board) + _left_words(planned.unused(board))
    if words:
        yield from page.flow([Text("; ".join(words), style="dim")], BELOW, 2 * BELOW)


def _headed(heading: str, bar: Text) -> Text:
    return Text(f"{'':{BELOW}}{heading:{len(BEFORE)}}").append_text(bar)


def _short(cells: Iterable[layouts.Cell]) -> list[layouts.Cell]:
    """Cells with the number of their slices alone, for a narrow page: `1g` of `1g.10gb`."""
    return [dataclasses.replace(cell, name=cell.name.partition(".")[0]) for cell in cells]


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
    slices = "slice" if left.slices == 1 else "slices"
    parts = {"MiB": left.memory_mib, slices: left.slices, "SMs": left.multiprocessors}
    said = [f"{count} {unit}" for unit, count in parts.items() if count]
    return [f"unused: {', '.join(said)}"] if said else []


def _counts(plan: planned.Plan, offer: Offer) -> dict[str, int]:
    taken = set(plan.holders.get(offer.resource, ()))
    held = sum(slot in taken for slot in offer.slots)
    counts = {
        "held": held,
        "free": len(offer.slots) - held,
        "retiring": len(offer.retiring),
    }
    return {state: count for state, count in counts.items() if count}
