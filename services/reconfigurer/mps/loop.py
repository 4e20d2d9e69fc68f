"""inventory.json and mps-held.json → a keeper for each daemon → mps.json. `app` composes it.

Nothing here asks the bus: files of the run folder are enough to serve and to be told of.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pathlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, Protocol, TypeVar

from services.reconfigurer.mps import life, wanted
from services.reconfigurer.mps.wanted import Aim
from shared.contract import codec, mps
from shared.contract.messages import Inventory
from shared.contract.mps import HeldForms, MpsDaemon, MpsState
from shared.runtime import clock, files, logs

log = logging.getLogger(__name__)
M = TypeVar("M")


class Keeping(Protocol):
    """What the loop needs of a daemon's keeper."""

    told: MpsDaemon

    def aim(self, aim: Aim) -> None:
        """Have the daemon be otherwise."""

    async def run(self) -> NoReturn:
        """Keep the daemon until cancelled."""

    async def release(self) -> None:
        """End it where it does not run as a task, and let every program onto the GPU."""


Make = Callable[[Aim, MpsDaemon | None, Callable[[], None]], Keeping]
"""Takes the aim, what a process before this one told of the GPU, and whom to tell of changes."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A keeper at work."""

    keeper: Keeping
    task: asyncio.Task[None]


class Loop:
    """All daemons of one node."""

    def __init__(
        self, run_dir: pathlib.Path, boot_id: str, make: Make, *, look_period_s: float
    ) -> None:
        self._inventory = files.Store(run_dir / "inventory.json", kind="inventory")
        self._held = files.Store(run_dir / mps.HELD_FILE, kind=mps.HELD_KIND)
        self._state = files.Store(run_dir / mps.STATE_FILE, kind=mps.STATE_KIND)
        self._boot_id = boot_id
        self._make = make
        self._look_period_s = look_period_s
        self._former: dict[str, MpsDaemon] = {}  # of the process before, until taken up again
        self._kept: dict[str, Kept] = {}
        self._written: MpsState | None = None
        self._wake = asyncio.Event()

    async def run(self) -> NoReturn:
        """Look and keep until cancelled; then no daemon is left."""
        former = await self._read(self._state, MpsState) or MpsState()
        self._former = {each.gpu_uuid: life.left_behind(each) for each in former.daemons}
        await self._save(self._now())  # what stands there speaks of daemons that serve
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    self._wake.clear()
                    await self._look(tasks)
                    await self._save(self._now())
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self._look_period_s):
                            await self._wake.wait()
        finally:
            await self._save(MpsState())

    async def _look(self, tasks: asyncio.TaskGroup) -> None:
        inventory = await self._read(self._inventory, Inventory)
        if inventory is None:
            return
        held = await self._read(self._held, HeldForms)
        aims = wanted.aims(inventory, held, self._told())
        for uuid in [uuid for uuid in self._kept if uuid not in aims]:
            await self._end(uuid)
        for uuid, aim in aims.items():
            if uuid in self._kept:
                self._kept[uuid].keeper.aim(aim)
            else:
                keeper = self._make(aim, self._former.get(uuid), self._wake.set)
                task = tasks.create_task(keeper.run(), name=f"MPS daemon of {uuid}")
                self._kept[uuid] = Kept(keeper, task)
        for aim in wanted.leftovers(inventory, aims, self._former):
            await self._make(aim, self._former[aim.gpu.uuid], self._wake.set).release()
        self._former = {}

    async def _end(self, uuid: str) -> None:
        log.info("nobody needs its MPS daemon any more: it ends", extra=logs.about(gpu=uuid))
        task = self._kept.pop(uuid).task
        task.cancel()
        await asyncio.wait((task,))

    def _now(self) -> MpsState:
        told = self._told()
        return MpsState(daemons=tuple(told[uuid] for uuid in sorted(told)))

    def _told(self) -> dict[str, MpsDaemon]:
        """How each daemon is, by GPU UUID; what was left behind goes on until it is taken up."""
        return self._former | {uuid: each.keeper.told for uuid, each in self._kept.items()}

    async def _save(self, state: MpsState) -> None:
        if state == self._written:
            return
        try:
            payload = await asyncio.to_thread(codec.encode, state)
            await self._state.write(payload, self._boot_id)
        except OSError as error:
            log.error("cannot write %s (%s): slots go on as before", self._state.path, error)
            await clock.sleep(self._look_period_s)
        else:
            self._written = state

    async def _read(self, store: files.Store, kind: type[M]) -> M | None:
        """Read what was written on this boot."""
        saved = await store.read()
        if saved is None or saved.boot_id != self._boot_id:
            return None
        try:
            return await asyncio.to_thread(codec.decode, kind, saved.payload)
        except codec.UnreadableError as error:
            log.warning("%s: %s; it is passed over", store.path, error)
            return None
