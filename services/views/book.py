"""The newest messages about every node, read from the bus and kept up to date.

`status` and `who` read it once, a rehearsal follows it from start to end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from services.views.fleet import Heard, NodeState
from shared.bus import fleet
from shared.bus.connection import Bus
from shared.bus.state import Received
from shared.contract import table
from shared.contract.messages import Intent, Inventory, Ledger, Progress
from shared.contract.table import Role
from shared.contract.usage import Usage
from shared.contract.waiting import Waiting

SPEAKS = {Role.CONTROLLER: "intent", Role.ADVERTISER: "inventory", Role.ALLOCATOR: "ledger"}
SPEAKS |= {Role.AGENT: "progress"}
SPEAKS_OF_NODES = tuple(SPEAKS.values())
WAITING = "waiting"
READ = (*SPEAKS_OF_NODES, "usage", WAITING)


class Book:
    """What all writers last said. `run` keeps it; `read` waits until all of it has been read.

    `news` is set whenever somebody says something new; who only says that he lives is noted.
    """

    def __init__(self, bus: Bus) -> None:
        self.news = asyncio.Event()
        self._values: dict[str, dict[str, Received[Any]]] = {name: {} for name in READ}
        self._readers: list[fleet.FleetReader[Any]] = [
            fleet.FleetReader(
                bus,
                table.bucket(name),
                self._keeper(name),
                on_renewed=self._renewer(name),
                on_gone=self._dropper(name),
            )
            for name in READ
        ]

    async def run(self) -> None:
        """Follow the bus for ever."""
        async with asyncio.TaskGroup() as tasks:
            for name, reader in zip(READ, self._readers, strict=True):
                tasks.create_task(reader.run(), name=f"read {name}")

    async def read(self) -> None:
        """Wait until every bucket has been read once."""
        for reader in self._readers:
            await reader.looked.wait()

    @property
    def nodes(self) -> tuple[str, ...]:
        """Every node that anybody has said something about."""
        return tuple(sorted({node for name in SPEAKS_OF_NODES for node in self._values[name]}))

    @property
    def intents(self) -> dict[str, Intent]:
        """What the controller wants, by node."""
        return self._of("intent")

    @property
    def inventories(self) -> dict[str, Inventory]:
        """What the advertisers see, by node."""
        return self._of("inventory")

    @property
    def ledgers(self) -> dict[str, Ledger]:
        """What the allocators keep, by node."""
        return self._of("ledger")

    @property
    def progresses(self) -> dict[str, Progress]:
        """What the agents do, by node."""
        return self._of("progress")

    @property
    def usages(self) -> dict[str, Usage]:
        """What is taken of the devices, by node."""
        return self._of("usage")

    @property
    def waiting(self) -> Waiting | None:
        """The pods of the whole fleet that do not run."""
        values = iter(self._of(WAITING).values())
        return next(values, None)

    @property
    def controller(self) -> Heard | None:
        """When the leading controller last said that it lives; None if none ever has."""
        received = next(iter(self._values[WAITING].values()), None)
        return _heard(received) if received else None

    def states(self) -> list[NodeState]:
        """All that is said of nodes, a node at a time."""
        intents, inventories = self.intents, self.inventories
        ledgers, progresses, usages = self.ledgers, self.progresses, self.usages
        stale = self.waiting.stale if self.waiting else ()
        return [
            NodeState(
                name=node,
                intent=intents.get(node),
                inventory=inventories.get(node),
                ledger=ledgers.get(node),
                progress=progresses.get(node),
                usage=usages.get(node),
                services=self._services(node),
                stale=tuple(each for each in stale if each.node == node),
            )
            for node in self.nodes
        ]

    def _services(self, node: str) -> dict[str, Heard]:
        """Who has spoken of a node, and when last; the controller, wherever it did."""
        found = {
            role.value: _heard(self._values[name][node])
            for role, name in SPEAKS.items()
            if node in self._values[name]
        }
        leader = self.controller
        if leader is not None and Role.CONTROLLER in found:
            found[Role.CONTROLLER] = max(
                leader, found[Role.CONTROLLER], key=lambda it: it.seen or ""
            )
        return found

    def _of(self, name: str) -> dict[str, Any]:
        return {node: received.value for node, received in self._values[name].items()}

    def _keeper(self, name: str) -> Callable[[str, Received[Any]], None]:
        def keep(node: str, received: Received[Any]) -> None:
            self._values[name][node] = received
            self.news.set()

        return keep

    def _renewer(self, name: str) -> Callable[[str, Received[Any]], None]:
        def renew(node: str, received: Received[Any]) -> None:
            self._values[name][node] = received

        return renew

    def _dropper(self, name: str) -> Callable[[str], None]:
        def drop(node: str) -> None:
            self._values[name].pop(node, None)
            self.news.set()

        return drop


def _heard(received: Received[Any]) -> Heard:
    _, _, rest = received.value.stamp.writer.partition("/")
    return Heard(seen=received.stored_at or None, version=rest.partition("/")[0] or None)
