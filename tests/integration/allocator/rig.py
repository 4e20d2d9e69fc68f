"""A node for the allocator: gRPC to a fake kubelet, an advertiser's hands, the bus if wanted."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

from services.allocator import app
from services.allocator.checkpoint import Memory
from services.allocator.settings import AllocatorSettings
from shared.contract import codec
from shared.contract.messages import Inventory
from shared.contract.table import Role
from shared.runtime import boot, files
from shared.simulation.broker import Broker
from shared.simulation.kube.kubelet.switches import Switches
from tests.support import one_node
from tests.support.one_node import NAME, QUICK, OneNode
from tests.support.running import running

NOWHERE = "nats://127.0.0.1:1"


@dataclass(frozen=True)
class Rig:
    """One node's kubelet and the folders that its services share."""

    node: OneNode
    root: pathlib.Path
    broker: Broker | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The allocator's settings as its process would get them."""
        environment = {
            "SLICEWIRE_NODE_NAME": NAME,
            "SLICEWIRE_RUN_DIR": str(self.root / "run"),
            "SLICEWIRE_STATE_DIR": str(self.root / "state"),
            "SLICEWIRE_DEVICE_PLUGINS_DIR": str(self.node.plugins),
            "SLICEWIRE_POD_RESOURCES_SOCKET": str(self.node.kubelet.pod_resources_socket),
            "SLICEWIRE_LIST_PERIOD_S": "0.5",
            "SLICEWIRE_BUS_URL": NOWHERE,
        }
        if self.broker is not None:
            user, password = self.broker.credentials(Role.ALLOCATOR, NAME)
            environment |= {
                "SLICEWIRE_BUS_URL": self.broker.url,
                "SLICEWIRE_BUS_USER": user,
                "SLICEWIRE_BUS_PASSWORD_FILE": str(password),
            }
        return environment

    @property
    def settings(self) -> AllocatorSettings:
        """The same as an object, for an allocator in this process."""
        prefix = "SLICEWIRE_"
        return AllocatorSettings.model_validate(
            {key.removeprefix(prefix).lower(): text for key, text in self.environment.items()}
        )

    async def process(self, **variables: str) -> asyncio.subprocess.Process:
        """Start the allocator as a process of its own, with more variables."""
        environment = os.environ | self.environment | variables
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "services.allocator", env=environment
        )

    def serving(self) -> contextlib.AbstractAsyncContextManager[None]:
        """An allocator in this process while the block runs; a planned stop ends it."""
        return running(app.serve(self.settings))

    async def advertise(self, inventory: Inventory) -> None:
        """Write inventory.json as the advertiser does."""
        store = files.Store(self.root / "run" / "inventory.json", kind="inventory")
        await store.write(codec.encode(inventory), await asyncio.to_thread(boot.boot_id))

    async def memory(self) -> Memory | None:
        """What the allocator has written down."""
        saved = await files.Store(self.root / "state" / "ledger.json", kind="ledger").read()
        return codec.decode(Memory, saved.payload) if saved else None

    async def holders(self) -> dict[str, str | None]:
        """Slots that are written down, and the pod of each."""
        memory = await self.memory()
        grants = memory.grants if memory else ()
        return {grant.slot: grant.holder.pod if grant.holder else None for grant in grants}

    async def phases(self, *names: str) -> list[str]:
        """Phases of pods."""
        return [await self.node.phase(name) for name in names]


@contextlib.asynccontextmanager
async def rig(
    root: pathlib.Path, switches: Switches = QUICK, broker: Broker | None = None
) -> AsyncIterator[Rig]:
    """A node with a running kubelet and no allocator yet."""
    async with one_node.one_node(root, switches) as node:
        yield Rig(node, root, broker)
