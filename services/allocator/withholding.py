"""The agent's hold → which slots it withholds; `ledger` and `standing` ask.

It covers whatever appears on a GPU that is being cut, but not the devices that stay.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.contract.messages import Hold


@dataclass(frozen=True, slots=True)
class Withheld:
    """What a hold names: slots, GPUs that are cut anew, and devices on them that stay."""

    slots: frozenset[str] = frozenset()
    recut: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()

    @classmethod
    def by(cls, hold: Hold) -> Withheld:
        """What that hold names, to be asked for many slots."""
        return cls(frozenset(hold.slots), frozenset(hold.recut), frozenset(hold.kept))

    def covers(self, slot: str, device: str, gpu: str) -> bool:
        """Whether a slot is withheld, on this device of this GPU."""
        return (gpu in self.recut and device not in self.kept) or slot in self.slots


NOTHING = Withheld()
