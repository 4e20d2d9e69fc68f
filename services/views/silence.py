"""Who has not been heard for long, though everybody who lives is heard each minute. Pure.

What such a service said last goes on standing on the bus, and is as old as its silence.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from services.views import page
from services.views.fleet import NodeState
from shared.contract import table

NODE_SERVICES = ("advertiser", "allocator", "agent")
CONTROLLER = "controller"

Services = Mapping[str, Mapping[str, Any]]  # as `status -o json` has them


def of(services: Services, now_ns: int, names: Iterable[str] = NODE_SERVICES) -> dict[str, float]:
    """Those services that have been silent for too long, with the seconds."""
    found = {
        name: page.elapsed(services[name]["seen"], now_ns) for name in names if name in services
    }
    return {name: age for name, age in found.items() if age is not None and age > table.SILENT_S}


def sentences(found: Mapping[str, float]) -> list[str]:
    """Say it of each."""
    return [f"{name} silent for {page.age(seconds)}" for name, seconds in found.items()]


def of_nodes(states: Iterable[NodeState], names: Container[str], now_ns: int) -> list[str]:
    """Say which of these nodes are told of by services that are silent."""
    services = {
        state.name: {name: heard.form() for name, heard in state.services.items()}
        for state in states
        if state.name in names
    }
    return [
        f"{node}: {', '.join(sentences(found))}: what is told of it is as old"
        for node, said in services.items()
        if (found := of(said, now_ns))
    ]


def of_controller(seen: str | None, now_ns: int) -> str:
    """Say that the controller is silent; empty where it lives, or was never heard."""
    found = of({CONTROLLER: {"seen": seen}}, now_ns, (CONTROLLER,))
    words = "".join(sentences(found))
    return words and f"{words}: nothing is resolved, and what waits is as old"
