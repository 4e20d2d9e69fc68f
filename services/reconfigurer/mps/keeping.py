"""Keeps the daemon of one GPU: started, limited, asked, started again; ended with its task.

`loop` says what it is to be (`aim`) and is told what it is (`told`). What follows from what has
happened is `life`'s to say.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import NoReturn

from services.reconfigurer.mps import life, limits
from services.reconfigurer.mps.daemon import ControlError, Daemon
from services.reconfigurer.mps.wanted import Aim
from shared.contract.mps import DaemonState, MpsDaemon
from shared.domain.gpu import Gpu
from shared.nvml import errors
from shared.nvml.compute_mode import Modes
from shared.runtime import backoff, clock, logs

log = logging.getLogger(__name__)
FIRST_ANSWER_S = 15.0
ASK_AGAIN_S = 0.1
END_S = 20.0


class Keeper:
    """One GPU's. `on_change` is called whenever `told` has changed.

    `former` is what a process before this one has left of it, its compute mode too.
    """

    def __init__(
        self,
        aim: Aim,
        daemon: Daemon,
        modes: Modes,
        on_change: Callable[[], None],
        *,
        former: MpsDaemon | None,
        probe_period_s: float,
    ) -> None:
        self.told: MpsDaemon = former or life.unborn(aim, clock.now_ns())
        self._aim = aim
        self._daemon = daemon
        self._modes = modes
        self._on_change = on_change
        self._probe_period_s = probe_period_s
        self._exclusive = former is not None and former.exclusive
        self._refused: bool | None = None  # the mode that the driver refused to set
        self._moved = asyncio.Event()

    def aim(self, aim: Aim) -> None:
        """Have the daemon be otherwise from now on."""
        if aim != self._aim:
            self._aim = aim
            self._moved.set()

    async def run(self) -> NoReturn:
        """Keep it for ever; the end of this task is the daemon's, and its clients'."""
        waits = backoff.Backoff(first=0.5, most=30.0)
        try:
            while True:
                why = await self._one_life(waits)
                self._tell(life.ended(self.told, why, clock.now_ns()))
                await clock.sleep(waits.next())
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_S):
                    await self.release()

    async def release(self) -> None:
        """End the daemon, if one lives, and let every program compute on the GPU again."""
        await self._daemon.quit()
        await self._set_mode(self._aim.gpu, exclusive=False)

    async def _one_life(self, waits: backoff.Backoff) -> str:
        """Start the daemon and attend to it; return why it does not run any more."""
        self._refused = None
        await self._set_mode(self._aim.gpu, exclusive=self._aim.exclusive)
        try:
            await self._daemon.start()
        except ControlError as error:
            return str(error)
        self._tell(life.begun(self.told, self._daemon.pid))
        try:
            async with asyncio.TaskGroup() as tasks:
                end = tasks.create_task(self._daemon.wait(), name="end of the MPS daemon")
                why = await self._attend(end, waits)
                end.cancel()
        finally:
            await self._daemon.kill()
        return why

    async def _attend(self, end: asyncio.Task[str], waits: backoff.Backoff) -> str:
        try:
            await self._first_answer(end)
        except ControlError as error:
            return str(error)
        silences = 0
        while not end.done():
            try:
                await self._be_as_aimed()
            except limits.ServerFaultError as error:
                silences = 0
                self._tell(life.silent(self.told, str(error), clock.now_ns()))
            except ControlError as error:
                silences += 1
                self._tell(life.silent(self.told, str(error), clock.now_ns()))
                if silences == life.MOST_SILENCES:
                    return f"it was ended, for it left {silences} questions unanswered: {error}"
            else:
                silences = 0
                waits.reset()
            await self._until_something(end)
        return end.result()

    async def _first_answer(self, end: asyncio.Task[str]) -> None:
        last = clock.loop_time() + FIRST_ANSWER_S
        while not end.done():
            try:
                await limits.probe(self._daemon.ask)
            except ControlError:
                if clock.loop_time() > last:
                    raise
                await clock.sleep(ASK_AGAIN_S)
            else:
                return

    async def _be_as_aimed(self) -> None:
        """Bring aim and daemon together, and see that it answers."""
        self._moved.clear()
        aim = self._aim
        if self.told.ready and self.told.replicas == aim.replicas:
            await limits.probe(self._daemon.ask)
        else:
            await limits.apply(self._daemon.ask, aim)
        await limits.look_at_servers(self._daemon.ask)
        await self._set_mode(aim.gpu, exclusive=aim.exclusive)
        self._tell(life.answering(self.told, aim, clock.now_ns(), exclusive=self._exclusive))

    async def _until_something(self, end: asyncio.Task[str]) -> None:
        """Wait until it has ended, is to be otherwise, or is to be asked again."""
        async with asyncio.TaskGroup() as tasks:
            moved = tasks.create_task(self._moved.wait(), name="another aim")
            await asyncio.wait(
                (end, moved),
                timeout=self._probe_period_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
            moved.cancel()

    async def _set_mode(self, gpu: Gpu, *, exclusive: bool) -> None:
        """Have the compute mode; where it is refused, MPS works and keeps nobody else away."""
        if exclusive in (self._exclusive, self._refused):
            return
        try:
            await self._modes.set(gpu, exclusive=exclusive)
        except errors.NvmlError as error:
            log.warning(
                "%s; programs beside the MPS daemon are not kept off the GPU",
                error,
                extra=logs.about(gpu=gpu.uuid),
            )
            self._refused = exclusive
        else:
            self._exclusive, self._refused = exclusive, None

    def _log(self, told: MpsDaemon) -> None:
        why = f": {told.reason}" if told.reason else ""
        level = logging.WARNING if told.state is DaemonState.DOWN else logging.INFO
        extra = logs.about(gpu=told.gpu_uuid)
        log.log(level, "its MPS daemon is %s%s", told.state.value, why, extra=extra)

    def _tell(self, told: MpsDaemon) -> None:
        if told == self.told:
            return
        if told.state is not self.told.state or told.reason != self.told.reason:
            self._log(told)
        self.told = told
        self._on_change()
