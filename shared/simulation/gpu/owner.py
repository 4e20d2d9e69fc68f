"""The owner process of one simulated node: its engine behind a unix socket.

Shims ask for NVML calls, tests and rehearsals for faults. A call that has to wait, for an event
or because a fault delays it, keeps nobody else waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shared.runtime import clock
from shared.simulation.gpu import answers, faults, wire
from shared.simulation.gpu.engine import Engine
from shared.simulation.gpu.holding import Holder
from shared.simulation.gpu.proc import ProcTree

_GLANCE_S = 1.0  # how often a waiting call looks whether its caller still lives


async def serve(engine: Engine, path: Path, proc: ProcTree | None = None) -> None:
    """Answer on the socket until cancelled, and keep the tree in step."""
    owner = _Owner(engine, proc)
    await owner.begin()
    async with asyncio.TaskGroup() as connections:

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections.create_task(owner.converse(reader, writer), name="simulated GPU's caller")

        server = await asyncio.start_unix_server(connected, path)
        try:
            await asyncio.Event().wait()  # the connections are ended by their group
        finally:
            server.close()
            await asyncio.to_thread(path.unlink, missing_ok=True)


class _Owner:
    """Converses with shims and controls; a process is known by its token while it is connected."""

    def __init__(self, engine: Engine, proc: ProcTree | None) -> None:
        self._engine = engine
        self._proc = proc
        self._shown: tuple[Holder, ...] = ()
        self._showing = asyncio.Lock()
        self._connections: Counter[str] = Counter()
        self._changed = asyncio.Event()

    async def begin(self) -> None:
        """Write what the tree shows of a node that nobody uses yet."""
        if self._proc is not None:
            await asyncio.to_thread(self._proc.begin, len(self._engine.describe()["gpus"]))

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        process = ""
        try:
            while (request := await wire.read(reader)) is not None:
                if not process and "process" in request:
                    process = request["process"]
                    self._connections[process] += 1
                reply = await self._reply(request, reader)
                await self._show()
                writer.write(wire.pack(reply))
                await writer.drain()
        except ConnectionError:
            pass  # the caller was killed: below it is forgotten
        finally:
            self._forget(process)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            await self._show()

    def _forget(self, process: str) -> None:
        self._connections[process] -= 1
        if process and self._connections[process] == 0:
            del self._connections[process]
            self._engine.leave(process)

    async def _show(self) -> None:
        """Have the tree show who holds GPUs before anybody is answered, as the kernel does."""
        if self._proc is None:
            return
        async with self._showing:
            holders = self._engine.holders()
            if holders != self._shown:
                await asyncio.to_thread(self._proc.update, holders)
                self._shown = holders

    async def _reply(self, request: dict[str, Any], reader: asyncio.StreamReader) -> dict[str, Any]:
        if request.get("control") == "mps":
            return await self._serve_mps(request, reader)
        if "control" in request:
            return self._control(request)
        code, out = await self._call(request, reader)
        return {"code": code, "out": out}

    async def _call(
        self, request: dict[str, Any], reader: asyncio.StreamReader
    ) -> tuple[int, list[Any]]:
        symbol, args = request["call"], request["args"]
        if fault := self._engine.strike(symbol, args):
            if fault.code is not None:
                return fault.code, []
            await self._until(lambda: fault.healed, fault.delay_s, reader)
        await self._until(lambda: False, self._engine.latency_s(symbol), reader)
        if symbol == answers.WAIT:
            ready = lambda: self._engine.ready(symbol, args)  # noqa: E731  # reads as its name
            await self._until(ready, args[1] / 1000, reader)
        return self._engine.answer(request["process"], symbol, args)

    async def _until(
        self, condition: Callable[[], bool], most_s: float | None, reader: asyncio.StreamReader
    ) -> None:
        """Wait until it is so, for at most this long (None: for ever), or the caller has gone."""
        end = float("inf") if most_s is None else clock.loop_time() + most_s
        while not condition() and not reader.at_eof():
            left = end - clock.loop_time()
            if left <= 0:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, _GLANCE_S)):
                    await self._changed.wait()

    async def _serve_mps(
        self, request: dict[str, Any], reader: asyncio.StreamReader
    ) -> dict[str, Any]:
        """Keep an MPS daemon for as long as it is connected; the answer is that it has to die."""
        try:
            daemon = self._engine.mps_begin(request["gpu"], request["pid"])
        except faults.FaultError as error:
            return {"error": str(error)}
        try:
            await self._until(lambda: self._engine.mps_dies(daemon), None, reader)
        finally:
            self._engine.mps_end(daemon)
        return {"error": "it was killed"}

    def _control(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            said = self._do(request)
        except faults.FaultError as error:
            return {"error": str(error)}
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        return {"error": "", **said}

    def _do(self, request: dict[str, Any]) -> dict[str, Any]:
        match request["control"]:
            case "fault":
                self._engine.fault(request["map"])
            case "heal":
                self._engine.heal(request["map"])
            case "start":
                self._engine.start_process(request["map"])
            case "end":
                self._engine.end_process(request["pid"])
            case "reboot":
                self._engine.reboot()
            case "reset":
                bus, code = self._engine.reset(request["gpu"])
                return {"bus": bus, "code": code}
            case "describe":
                return {"node": self._engine.describe()}
        return {}
