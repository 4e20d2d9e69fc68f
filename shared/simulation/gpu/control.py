"""Breaks and heals simulated GPUs from another process: rehearsals and tests call it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shared.runtime import clock
from shared.simulation.gpu import wire
from shared.simulation.gpu.faults import FaultError

_POLL_S = 0.05


class Control:
    """One simulated node, by its owner's socket. Fault maps are those of `faults`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def ready(self, within_s: float = 10.0) -> None:
        """Wait until the owner answers.

        Raises:
            TimeoutError: it does not.
        """
        async with asyncio.timeout(within_s):
            while True:
                try:
                    await self.describe()
                except OSError:
                    await clock.sleep(_POLL_S)
                else:
                    return

    async def fault(self, fault: Mapping[str, Any]) -> None:
        """Break what the map says.

        Raises:
            FaultError: the map means nothing on this node.
            OSError: the owner is away.
        """
        await self._ask({"control": "fault", "map": dict(fault)})

    async def heal(self, fault: Mapping[str, Any]) -> None:
        """Mend what the same map broke.

        Raises:
            FaultError: nothing is broken in this way.
            OSError: the owner is away.
        """
        await self._ask({"control": "heal", "map": dict(fault)})

    async def reboot(self) -> None:
        """Boot the node anew: instances and processes are gone, pending modes come into force.

        Raises:
            OSError: the owner is away.
        """
        await self._ask({"control": "reboot"})

    async def start_process(
        self,
        uuid: str,
        pid: int,
        name: str,
        memory_mib: int = 0,
        *,
        sm_percent: int = 0,
        cgroup: str = "",
        mps: bool = False,
    ) -> None:
        """Have a process compute on the GPU or MIG device with this UUID.

        `sm_percent` is how much of the time; `cgroup` its control group, if not one of the host;
        with `mps` it is a client of the GPU's MPS daemon, if that lives.

        Raises:
            FaultError: there is no such device, it has not so much memory left, or it is for
                clients of its MPS daemon alone.
            OSError: the owner is away.
        """
        process = {
            "uuid": uuid,
            "pid": pid,
            "name": name,
            "memoryMiB": memory_mib,
            "sm": sm_percent,
            "cgroup": cgroup,
            "mps": mps,
        }
        await self._ask({"control": "start", "map": process})

    async def end_process(self, pid: int) -> None:
        """Have a process end, on whatever devices it computes.

        Raises:
            FaultError: there is no such process.
            OSError: the owner is away.
        """
        await self._ask({"control": "end", "pid": pid})

    async def describe(self) -> dict[str, Any]:
        """Return what the node holds, as `description` says it."""
        return dict((await self._ask({"control": "describe"}))["node"])

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        reader, writer = await asyncio.open_unix_connection(self._path)
        try:
            writer.write(wire.pack(request))
            await writer.drain()
            reply = await wire.read(reader)
        finally:
            writer.close()
            await writer.wait_closed()
        if reply is None:
            raise ConnectionResetError(f"the owner behind {self._path} closed before it answered")
        if reply["error"]:
            raise FaultError(reply["error"])
        return reply
