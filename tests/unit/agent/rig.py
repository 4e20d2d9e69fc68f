"""The agent's loop on simulated GPUs in this process; the other services answer at once."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import pathlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from services.reconfigurer.agent import executor, journal, looking, loop
from services.reconfigurer.agent.memory import Memory
from services.reconfigurer.agent.view import Limits, Outcome
from shared.bus.state import Received
from shared.contract import codec
from shared.contract.generation import Generation
from shared.contract.messages import (
    Hold,
    Intent,
    Inventory,
    Ledger,
    LedgerRow,
    MigPolicy,
    Phase,
    Progress,
)
from shared.contract.spans import SpanRecord
from shared.domain import slots
from shared.domain.gpu import Gpu
from shared.domain.sharing import Share
from shared.domain.slots import SlotState
from shared.geometry.board import Profile
from shared.geometry.config import Row
from shared.nvml import changes, errors, threads
from shared.nvml.driver import PynvmlDriver
from shared.nvml.errors import Code
from shared.nvml.port import GpuInstance, ModeSet
from shared.nvml.writing import PynvmlWriter
from shared.simulation.gpu import catalogue
from shared.simulation.gpu.holding import Holder
from shared.simulation.gpu.local import LocalTransport
from shared.simulation.gpu.proc import ProcTree
from shared.telemetry import spans
from tests.support import hardware, measured
from tests.support.eventually import eventually

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SECOND = 1_000_000_000
codec.prepare((Memory,))  # as the service does before its loop runs
catalogue.models()  # read from its file before a loop runs


class KilledError(Exception):
    """The agent's process ended here."""


class Rig:
    """One node. A new `agent` is a new process: it knows what is on disk and on the bus."""

    def __init__(self, node: LocalTransport, folder: pathlib.Path) -> None:
        self.node = node
        self.folder = folder
        self.boot_id = "boot-1"
        self.pods: dict[str, str] = {}  # device UUID -> pod
        self.intent: Intent | None = None
        self.traceparent = TRACE
        self.hold = Hold(stamp=hardware.stamp())
        self.told: list[Progress] = []
        self.spans: list[SpanRecord] = []
        self.measured = measured.Remembering()
        self.evicted: list[str] = []
        self.prepares = True
        self.evicts = True
        self.kill_at: int | None = None  # number of the journal's write that does not come back
        self.written = 0
        self.kill_after: int | None = None  # number of the NVML write after which it ends
        self.made = 0
        self.boots = 0
        self.limits = Limits(first_retry_ns=3600 * SECOND)
        self.agent: loop.Loop | None = None
        self._proc = ProcTree(folder / "proc")

    # ------------------------------------------------------------------------- other services

    def want(
        self, name: str, *rows: Row, generation: Generation, policy: MigPolicy | None = None
    ) -> None:
        """A new intent."""
        self.intent = dataclasses.replace(
            hardware.intent(generation=generation),
            mig_config=name,
            mig_rows=rows,
            mig_policy=policy or MigPolicy(),
        )
        self.tell()

    def tell(self) -> None:
        """Let the agent hear everything."""
        if self.agent is None:
            return
        self.agent.on_inventory(Received(self._inventory(), "", 1))
        self.agent.on_ledger(Received(self._ledger(), "", 1))
        if self.intent is not None:
            self.agent.on_intent(Received(self.intent, self.traceparent, 1))

    def _heard_hold(self, hold: Hold, _traceparent: str) -> None:
        self.hold = hold
        self.tell()

    def _heard_progress(self, told: Progress, _traceparent: str) -> None:
        self.told.append(told)
        if told.phase is Phase.PREPARE and self.prepares and self.intent is not None:
            self.intent = dataclasses.replace(
                self.intent, prepared_for=told.stamp.generation, prepared_order=told.order
            )
            self.tell()
        if told.phase is Phase.HOLDING and self.evicts and told.blockers:
            gone = {holder.pod for holder in told.blockers}
            self.evicted += sorted(gone)
            self.pods = {uuid: pod for uuid, pod in self.pods.items() if pod not in gone}
            self.tell()

    def _inventory(self) -> Inventory:
        asked = self.hold.release_nvml
        stamp = self.intent.stamp if self.intent else hardware.stamp()
        return Inventory(
            stamp=stamp,
            driver_version="580",
            cuda_version=(13, 0),
            gpus=(),
            shares=tuple(self._shares()),
            paused_for=self.hold.stamp.generation if asked else None,
            paused_order=self.hold.order if asked else 0,
        )

    def _shares(self) -> list[Share]:
        found = []
        for gpu in self.gpus():
            whole = [(gpu["uuid"], "nvidia.com/gpu")]
            parts = [(uuid, "nvidia.com/mig") for uuid in uuids(gpu)]
            for uuid, name in parts if gpu["migMode"] else whole:
                found.append(
                    Share(
                        uuid=uuid,
                        gpu_uuid=gpu["uuid"],
                        gpu_index=gpu["index"],
                        resource=name,
                        replicas=1,
                    )
                )
        return found

    def _ledger(self) -> Ledger:
        of = {share.uuid: share.gpu_uuid for share in self._shares()}
        return Ledger(
            stamp=hardware.stamp(),
            rows=tuple(
                LedgerRow(
                    slot=uuid,
                    resource="nvidia.com/mig",
                    gpu_uuid=of[uuid],
                    state=SlotState.HELD,
                    holder=slots.Holder("team", pod, "main"),
                )
                for uuid, pod in sorted(self.pods.items())
                if uuid in of
            ),
            counts=(),
            held_for=self.hold.stamp.generation if self.hold.recut else None,
            held_order=self.hold.order if self.hold.recut else 0,
        )

    # ------------------------------------------------------------------------------- hardware

    def gpus(self) -> list[dict[str, Any]]:
        """The GPUs as the simulation describes them."""
        return list(self.node.describe()["gpus"])

    def layout(self, index: int) -> list[tuple[str, int]]:
        """Profiles and starts of a GPU's instances."""
        found = self.gpus()[index]["instances"]
        return sorted(((each["profile"], each["start"]) for each in found), key=lambda e: e[1])

    def writes(self, index: int) -> Counter[str]:
        """Writing calls that a GPU got."""
        return Counter(self.node.describe()["writes"].get(str(index), {}))

    async def _reset(self, uuid: str) -> None:
        code = self.node.reset(uuid)
        if code is Code.IN_USE:
            raise errors.InUseError(f"{uuid} is in use by another client and was not reset")
        if code is not Code.SUCCESS:
            raise errors.ResetFailedError(f"{uuid} was not reset: {code.name}")

    async def _reboot(self, _traceparent: str) -> Outcome:
        self.boots += 1
        self.node.reboot()
        self.boot_id = f"boot-{self.boots + 1}"
        self.pods.clear()
        self.hold = Hold(stamp=hardware.stamp())
        raise KilledError("the node went down")

    # ---------------------------------------------------------------------------------- agent

    def build(self) -> loop.Loop:
        """A new process of the agent."""
        telemetry = spans.Telemetry("agent", "node-a", meters=self.measured)
        telemetry.sink = self.spans.append
        nvml = threads.Nvml(PynvmlDriver(), listen_s=0.02)
        hands = _Hands(self, changes.Changes(nvml, PynvmlWriter(), deadline_s=5.0))
        eye = looking.Eye(nvml, hands)
        proc = self.folder / "proc"
        return loop.Loop(
            loop.Parts(
                store=_Disk(self, self.folder / "journal.json"),
                hardware=eye,
                worker=executor.Executor(eye, hands, telemetry, reset=self._reset, proc=proc),
                hold=self._heard_hold,
                progress=self._heard_progress,
                reboot=self._reboot,
            ),
            telemetry,
            stamp=hardware.stamp(),
            limits=self.limits,
        )

    async def show_clients(self) -> None:
        """Write /proc as the owner process would."""
        clients = self.node.describe()["clients"]
        held = [Holder(each["pid"], each["name"], (each["gpu"],)) for each in clients]
        await asyncio.to_thread(self._proc.update, held)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """An agent's process while the block runs."""
        async with asyncio.TaskGroup() as tasks:
            self.agent = self.build()
            running = tasks.create_task(self.agent.run())
            self.tell()
            try:
                yield
            finally:
                running.cancel()
                self.agent = None

    async def until(self, *phases: Phase, within: float = 20.0) -> Progress:
        """Serve until one of these is said of the newest generation; processes that die restart."""
        while True:
            try:
                async with self.serving():
                    return await self.until_said(*phases, within=within)
            except* KilledError:
                self.kill_at = self.kill_after = None

    async def until_said(self, *phases: Phase, within: float = 20.0) -> Progress:
        """Wait, while an agent serves, until one of these is said of the newest generation."""
        await eventually(lambda: self._newest(phases) is not None, within=within)
        return self.told[-1]

    def _newest(self, phases: tuple[Phase, ...]) -> Progress | None:
        if not self.told or self.intent is None:
            return None
        last = self.told[-1]
        due = last.stamp.generation == self.intent.stamp.generation and last.phase in phases
        return last if due else None

    def phases(self) -> list[Phase]:
        """What was said, one after the other, equal neighbours once."""
        found: list[Phase] = []
        for each in self.told:
            if not found or found[-1] is not each.phase:
                found.append(each.phase)
        return found

    async def memory(self) -> Memory:
        """What is on disk."""
        return await journal.Journal(self.folder / "journal.json", self.boot_id).read()


class _Hands:
    """Writes to GPUs; the process ends after the write that the rig says, before it can tell."""

    def __init__(self, rig: Rig, hands: changes.Changes) -> None:
        self._rig = rig
        self._hands = hands
        self.board, self.instances = hands.board, hands.instances
        self.processes = hands.processes

    async def set_mig_mode(self, gpu: Gpu, *, on: bool) -> ModeSet:
        asked = await self._hands.set_mig_mode(gpu, on=on)
        self._made()
        return asked

    async def create_instance(self, gpu: Gpu, profile: Profile, start: int) -> GpuInstance:
        made = await self._hands.create_instance(gpu, profile, start)
        self._made()
        return made

    async def destroy_instance(self, gpu: Gpu, instance: int) -> None:
        await self._hands.destroy_instance(gpu, instance)
        self._made()

    def _made(self) -> None:
        self._rig.made += 1
        if self._rig.made == self._rig.kill_after:
            raise KilledError(f"after NVML write {self._rig.made}")


class _Disk:
    """The journal's file; the process ends after the write that the rig says."""

    def __init__(self, rig: Rig, path: pathlib.Path) -> None:
        self._rig = rig
        self._file = journal.Journal(path, rig.boot_id)

    async def read(self) -> Memory:
        return await self._file.read()

    async def write(self, memory: Memory) -> None:
        await self._file.write(memory)
        self._rig.written += 1
        if self._rig.written == self._rig.kill_at:
            raise KilledError(f"after write {self._rig.written}")


def uuids(gpu: dict[str, Any]) -> list[str]:
    """MIG UUIDs of a described GPU."""
    return [each["uuid"] for each in gpu["instances"]]
