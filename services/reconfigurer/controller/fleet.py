"""All that the leader knows of the nodes: from Kubernetes, from the bus, and what it wants of them.

Filled by the watches and the bus readers, read by `resolver` and `report`. One leader's term has
one `Fleet`; the next leader starts with a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from services.reconfigurer.controller import generations, nodes, texts
from services.reconfigurer.controller.outcome import Outcome
from shared.bus.state import Received
from shared.contract.generation import Generation
from shared.contract.messages import Intent, Inventory, Ledger, Progress

NO_MAP = texts.ConfigMap(name="")


@dataclass(slots=True)
class Fleet:
    """Values by node name; `intents` is the newest that was published for each node.

    `config_map` holds the sharing texts, `mig_map` the MIG text; `outcomes` say where wanted MIG
    layouts stand; `heard` is when (ns since the epoch) a node's advertiser last said that it lives.
    """

    config_label: str
    intents: dict[str, Intent]
    config_map: texts.ConfigMap
    mig_map: texts.ConfigMap = NO_MAP
    nodes: dict[str, nodes.Node] = field(default_factory=dict)
    inventories: dict[str, Inventory] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    progress: dict[str, Received[Progress]] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    nodes_listed: asyncio.Event = field(default_factory=asyncio.Event)
    config_listed: asyncio.Event = field(default_factory=asyncio.Event)
    mig_listed: asyncio.Event = field(default_factory=asyncio.Event)
    progress_read: asyncio.Event = field(default_factory=asyncio.Event)
    hardware_read: asyncio.Event = field(default_factory=asyncio.Event)

    async def complete(self) -> None:
        """Wait until nodes, ConfigMaps and inventories have been read once.

        Half a view decides nothing: a rule by product would let go of every node that it had
        chosen, until the inventories come.
        """
        listed = (self.nodes_listed, self.config_listed, self.mig_listed)
        for read in (*listed, self.hardware_read):
            await read.wait()

    def ours(self, name: str) -> bool:
        """Whether the node gets an intent: it exists, and has GPUs or is said to have some.

        Its labels may say so (Node Feature Discovery, NVIDIA's operator, a config label), or an
        advertiser runs there and has published an inventory. Other nodes are left alone.
        """
        node = self.nodes.get(name)
        return node is not None and (name in self.inventories or node.says_gpu(self.config_label))

    def told_of(self) -> set[str]:
        """Every node that anything is known of but what the API server says."""
        return set().union(*self._told())

    def forget(self, name: str) -> None:
        """Let go of all that is known of a node but what the API server says."""
        for values in self._told():
            values.pop(name, None)

    def _told(self) -> tuple[dict[str, Any], ...]:
        return (
            self.intents,
            self.inventories,
            self.heard,
            self.ledgers,
            self.progress,
            self.outcomes,
        )

    def generations_in_use(self) -> Iterator[Generation]:
        """Every generation that some node may have seen."""
        for node in self.nodes.values():
            yield generations.noted(node.annotations)
        for wanted in self.intents.values():
            yield wanted.stamp.generation


def same_hardware(one: Inventory, other: Inventory) -> bool:
    """Whether both show the same GPUs to a rule or a sharing text, however healthy they are."""
    return _identities(one) == _identities(other)


def _identities(inventory: Inventory) -> list[tuple[object, ...]]:
    return [
        (
            (gpu.index, gpu.uuid, gpu.model, gpu.pci_device, gpu.mig_enabled),
            *(device.uuid for device in gpu.mig_devices),
        )
        for gpu in inventory.gpus
    ]
