"""A message that was read → what in it is beyond any hardware; `codec` refuses such a one.

A message is bounded in bytes, a number is short whatever it says. A node that lies must not make
others draw or list without end: every reader of a fleet reads all its nodes.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator

from shared.contract.messages import Inventory, Progress
from shared.domain.gpu import Gpu
from shared.domain.sharing import Share
from shared.geometry.board import Profile
from shared.sharing.entries import MOST_IDS

MOST_SLICES = 64  # boards have eight today


def fault(message: object) -> str:
    """Say what cannot be in a message, empty where nothing is."""
    return next(_faults(message), "")


def _faults(message: object) -> Iterator[str]:
    if isinstance(message, Inventory):
        for gpu in message.gpus:
            yield from _of_gpu(gpu)
        yield from _of_shares(message.shares)
    elif isinstance(message, Progress):
        for each in message.boards:
            if not each.board.profiles:
                yield "boards: one has no profile"
            for profile in each.board.profiles:
                yield from _of_profile(profile)


def _of_gpu(gpu: Gpu) -> Iterator[str]:
    for device in gpu.mig_devices:
        if not _fits(device.start, device.size):
            yield f"gpus: {device.uuid} begins at slice {device.start} and has {device.size}"


def _of_shares(shares: tuple[Share, ...]) -> Iterator[str]:
    totals: collections.Counter[str] = collections.Counter()
    for share in shares:
        if share.replicas < 0:
            yield f"shares: {share.uuid} has {share.replicas} replicas"
        totals[share.resource] += share.replicas
        if totals[share.resource] > MOST_IDS:
            yield f"shares: more than {MOST_IDS} slots of {share.resource}"


def _of_profile(profile: Profile) -> Iterator[str]:
    if not profile.starts or not all(_fits(start, profile.size) for start in profile.starts):
        yield f"boards: {profile.name} has {profile.size} slices from one of {profile.starts}"


def _fits(start: int, size: int) -> bool:
    return start >= 0 and size > 0 and start + size <= MOST_SLICES
