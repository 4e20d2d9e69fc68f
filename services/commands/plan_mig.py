"""The MIG half of `slicewire plan`: a text and a name to what happens on each GPU.

What comes out are the GPUs as they would be afterwards, for the sharing half to share, and the
pods that would have to go.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from services.commands import plan_holders, plan_state
from services.views import planned
from shared.domain.errors import Place, Problem, RefusedError
from shared.domain.gpu import Gpu, MigDevice, MigMode
from shared.geometry import load, plan, resolve
from shared.geometry.board import Board, Instance, Layout, ordered
from shared.geometry.config import GeometryConfig
from shared.sharing import manifest, suggest
from shared.sharing.findings import Findings

KEY = "config.yaml"  # the key that mig-parted's own ConfigMaps have


@dataclass(frozen=True, slots=True)
class Done:
    """The GPUs after a MIG plan, the pods that have to go for it, and what its text warns of."""

    boards: tuple[planned.Board, ...]
    evictions: tuple[str, ...] = ()
    warnings: tuple[Problem, ...] = ()


def cut(body: str, name: str, boards: tuple[planned.Board, ...], state: plan_state.State) -> Done:
    """Cut the GPUs as the config `name` of the file wants it.

    Raises:
        RefusedError: the text or the name is refused; nothing would be done.
    """
    config, key, text = _config(body)
    try:
        resolved = resolve.resolve(config, name, [_target(board) for board in boards])
    except RefusedError as error:
        raise RefusedError(_placed(error.problems, text)) from None
    plans = []
    for board, current in zip(boards, plan_holders.current(state, boards), strict=True):
        wanted = resolved.wanted.get(board.gpu.index)
        if wanted is None or board.table is None:
            plans.append(plan.Plan(keep=_layout(board.gpu)))
        else:
            plans.append(plan.towards(board.table, current, wanted))
    pods = {blocker.holder for each in plans for blocker in each.blockers}
    done = tuple(_after(board, steps) for board, steps in zip(boards, plans, strict=True))
    warnings = _placed((*config.warnings, *resolved.warnings), text)
    warnings += (*_unread(key), *_unpublished(done))
    return Done(done, tuple(sorted(pods)), warnings)


def _target(board: planned.Board) -> resolve.Target:
    return resolve.Target(
        index=board.gpu.index,
        model=board.model,
        pci_device=board.gpu.pci_device,
        board=board.table,
    )


def _unread(key: str) -> Iterator[Problem]:
    """Warn of the only text of a ConfigMap that stands where no controller looks for it."""
    if key not in ("", KEY):
        yield Problem(
            "data", 0, 0, f"a node gets the text under {KEY} only, this one is under {key}"
        )


def _unpublished(boards: tuple[planned.Board, ...]) -> Iterator[Problem]:
    for board in boards:
        if planned.unused(board).memory_mib is None:
            what = f"nobody published how large the profiles of a {board.model} are"
            yield Problem("", 0, 0, f"GPU {board.gpu.index}: {what}: their memory counts as 0")


def _config(body: str) -> tuple[GeometryConfig, str, manifest.Text | None]:
    """Read a bare text, or the one in a manifest with its key and where it stands there."""
    texts = manifest.texts(body)
    if texts is None:
        return load.load(body), "", None
    key = KEY if KEY in texts or len(texts) != 1 else next(iter(texts))
    if key not in texts:
        message = f"the ConfigMap has no key {KEY}, it has {suggest.listed(texts)}"
        Findings().stop(Place(), "data", message)
    text = texts[key]
    try:
        return load.load(text.text), key, text
    except RefusedError as error:
        raise RefusedError(_placed(error.problems, text)) from None


def _placed(problems: tuple[Problem, ...], text: manifest.Text | None) -> tuple[Problem, ...]:
    return problems if text is None else tuple(text.placed(problem) for problem in problems)


def _layout(gpu: Gpu) -> Layout:
    return ordered(Instance(device.profile, device.start) for device in gpu.mig_devices)


def _after(board: planned.Board, steps: plan.Plan) -> planned.Board:
    """Return a GPU as it is when the steps are done."""
    gpu = board.gpu
    changed = planned.Cut(_layout(gpu), steps)
    if steps.empty or board.table is None:
        return dataclasses.replace(board, cut=changed)
    enabled = gpu.mig_enabled if steps.mode is None else steps.mode
    done = dataclasses.replace(
        gpu,
        mig_mode=MigMode(current=enabled, pending=enabled),
        mig_devices=tuple(_devices(gpu, board.table, steps)),
    )
    return dataclasses.replace(board, gpu=done, cut=changed)


def _devices(gpu: Gpu, table: Board, steps: plan.Plan) -> Iterator[MigDevice]:
    """Give the MIG devices that stay, as they are, then the new ones with the free indexes."""
    kept = [each for each in gpu.mig_devices if Instance(each.profile, each.start) in steps.keep]
    yield from kept
    taken = {device.index for device in kept}
    free = (index for index in range(table.units) if index not in taken)
    for instance, index in zip(steps.create, free, strict=False):
        yield _new(gpu, table, instance, index)


def _new(gpu: Gpu, table: Board, instance: Instance, index: int) -> MigDevice:
    profile = table.profile(instance.profile)
    name = f"{gpu.uuid}/{instance.profile}/{instance.start}"
    return MigDevice(
        index=index,
        uuid=f"MIG-{uuid.uuid5(uuid.NAMESPACE_DNS, name)}",
        profile=instance.profile,
        gpu_instance=index,
        compute_instance=0,
        start=instance.start,
        size=profile.size,
        memory_mib=profile.memory_mib or 0,
        multiprocessors=profile.multiprocessors or 0,
        gpu_slices=profile.slices,
        compute_slices=profile.slices,
    )
