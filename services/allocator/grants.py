"""What somebody has: a slot handed out, and the container that List names for it. Pure values.

A slot is known by resource *and* id: after a rename one id may be held under both names.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.domain.sharing import Strategy
from shared.domain.slots import Holder

Key = tuple[str, str]  # (resource, slot id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A slot that somebody has. No `holder` yet and no `rivals`: handed out, pod not known.

    `rivals` are all holders of several pods that the last List named at once; `missed_ns` is when
    a List first failed to show the grant. `strategy` is how the device is shared with its holder,
    for as long as it holds the slot; None where nobody has seen it handed out.
    """

    resource: str
    slot: str
    at_ns: int
    trace: str = ""
    holder: Holder | None = None
    rivals: tuple[Holder, ...] = ()
    missed_ns: int = 0
    strategy: Strategy | None = None

    @property
    def key(self) -> Key:
        """What the slot is known by."""
        return self.resource, self.slot

    @property
    def unresolved(self) -> bool:
        """Whether nobody is known to have come for it."""
        return self.holder is None and not self.rivals

    @property
    def names(self) -> tuple[Holder, ...]:
        """Everybody that is said to have it."""
        return self.rivals or ((self.holder,) if self.holder else ())


@dataclass(frozen=True, slots=True)
class Listed:
    """One container's slots of one resource, as List names them; the pod may have finished."""

    holder: Holder
    resource: str
    slots: tuple[str, ...]
