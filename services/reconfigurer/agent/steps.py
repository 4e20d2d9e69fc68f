"""A GPU's plan → the writes that carry it out, in order. Pure; `executor` makes them.

What goes, goes first. A mode is switched on before anything is made and off after all is gone,
and places are named, so the order of making does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

from services.reconfigurer.agent.plan import GpuPlan
from shared.geometry.board import Instance
from shared.nvml.port import GpuInstance


@dataclass(frozen=True, slots=True)
class Destroy:
    """Take an instance away."""

    instance: GpuInstance

    def __str__(self) -> str:
        return f"destroy {self.instance.profile} at {self.instance.start}"


@dataclass(frozen=True, slots=True)
class Switch:
    """Ask for a MIG mode."""

    on: bool

    def __str__(self) -> str:
        return f"switch MIG {'on' if self.on else 'off'}"


@dataclass(frozen=True, slots=True)
class Create:
    """Make an instance."""

    place: Instance

    def __str__(self) -> str:
        return f"create {self.place.profile} at {self.place.start}"


Step = Destroy | Switch | Create


def of(plan: GpuPlan) -> tuple[Step, ...]:
    """List the writes of a plan."""
    switch = () if plan.mode is None else (Switch(plan.mode),)
    return (
        *(Destroy(each) for each in plan.destroy),
        *switch,
        *(Create(place) for place in plan.create),
    )
