"""A model of the catalogue → the board that geometry plans on, as NVML would show it.

For `slicewire plan` and tests; services make theirs of NVML. Profiles whose size nobody published
are there as well: where they may stand is known.
"""

from __future__ import annotations

from shared.geometry.board import Board, Profile
from shared.simulation.gpu.catalogue import Model


def board(model: Model) -> Board | None:
    """Return the board of a model, None where it cannot do MIG."""
    if not model.profiles:
        return None
    profiles = tuple(
        Profile(
            name=profile.name,
            slices=profile.slices,
            size=profile.size,
            starts=profile.starts,
            most=profile.most,
            memory_mib=profile.memory_mib,
            multiprocessors=profile.multiprocessors,
            id=profile.id,
        )
        for profile in model.profiles
    )
    return Board(memory_mib=model.memory_mib, profiles=profiles)
