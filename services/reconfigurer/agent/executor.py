"""Carries a GPU's plan out: one NVML write after another, each noted before and told as a span.

Plans come from `change`; what came of one goes back as an `Outcome`. Nothing is decided here but
to stop at the first thing that is not as the plan says.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import pathlib
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Protocol

from services.reconfigurer.agent import sight as sights
from services.reconfigurer.agent import steps
from services.reconfigurer.agent.looking import Eye
from services.reconfigurer.agent.memory import Reason
from services.reconfigurer.agent.plan import GpuPlan
from services.reconfigurer.agent.sight import GpuSight
from services.reconfigurer.agent.view import Outcome
from shared.domain.gpu import Gpu
from shared.geometry.board import Board, Profile
from shared.nvml import clients, errors
from shared.nvml.clients import Client
from shared.nvml.port import GpuInstance, ModeSet
from shared.runtime import logs
from shared.telemetry import catalogue, spans

log = logging.getLogger(__name__)
SPANS = {
    steps.Destroy: "destroy instance",
    steps.Switch: "switch MIG mode",
    steps.Create: "create instance",
}
CALLS = {steps.Destroy: "destroy", steps.Switch: "mode", steps.Create: "create"}  # in metrics
TOGGLES_WITHOUT_RESET = (9, 0)  # compute capability of Hopper
Note = Callable[[str], Awaitable[None]]  # keeps a step before it is made


class Hands(Protocol):
    """What changes a GPU (shared.nvml.changes.Changes)."""

    async def set_mig_mode(self, gpu: Gpu, *, on: bool) -> ModeSet:
        """Ask for a MIG mode."""

    async def create_instance(self, gpu: Gpu, profile: Profile, start: int) -> GpuInstance:
        """Make a GPU instance and its compute instance."""

    async def destroy_instance(self, gpu: Gpu, instance: int) -> None:
        """Take a GPU instance and its compute instances away."""


class _StoppedError(Exception):
    """A plan is not carried on."""

    def __init__(self, reason: Reason, sentence: str, among: tuple[Client, ...] = ()) -> None:
        super().__init__(sentence)
        self.reason = reason
        self.clients = among


class Executor:
    """Writes to one node's GPUs. `writes` counts NVML's writing calls and resets by GPU UUID."""

    def __init__(
        self,
        eye: Eye,
        hands: Hands,
        telemetry: spans.Telemetry,
        *,
        reset: Callable[[str], Awaitable[None]],
        proc: pathlib.Path,
    ) -> None:
        self._eye = eye
        self._hands = hands
        self._telemetry = telemetry
        self._reset = reset
        self._proc = proc
        self.writes: Counter[str] = Counter()

    async def apply(self, plan: GpuPlan, traceparent: str, note: Note) -> Outcome:
        """Carry a plan out, and look whether it has become true."""
        step = self._telemetry.begin("cut GPU", traceparent)
        before = self.writes[plan.uuid]
        outcome = await self._applied(plan, step.traceparent, note)
        attributes: dict[str, spans.Attribute] = {
            "gpu": plan.uuid,
            "instances.kept": len(plan.kept),
            "instances.destroyed": len(plan.destroy),
            "instances.created": len(plan.create),
            "nvml.writes": self.writes[plan.uuid] - before,
        }
        self._telemetry.end(step, attributes=attributes, error=outcome.sentence)
        return outcome

    async def still_there(self, among: tuple[Client, ...], seen: tuple[GpuSight, ...]) -> bool:
        """Whether one of these clients still has one of these GPUs open."""
        pids = {client.pid for client in among}
        found = [await self._clients(each.gpu) for each in seen]
        return any(client.pid in pids for each in found for client in each)

    async def _applied(self, plan: GpuPlan, traceparent: str, note: Note) -> Outcome:
        try:
            async with self._eye.open():
                sight = await self._checked(plan)
                for step in steps.of(plan):
                    await note(f"{plan}: {step}")
                    await self._write(sight, step, traceparent)
                await self._read_back(plan)
        except _StoppedError as stopped:
            return Outcome(
                uuid=plan.uuid,
                reason=stopped.reason,
                sentence=str(stopped),
                clients=stopped.clients,
            )
        except errors.NvmlError as error:
            return Outcome(uuid=plan.uuid, reason=_reason(error), sentence=str(error))
        return Outcome(uuid=plan.uuid)

    async def _checked(self, plan: GpuPlan) -> GpuSight:
        """See that the GPU still is what was planned for; what must stay is not to go."""
        sight = await self._sight(plan.uuid)
        doomed = {device for each in plan.destroy for device in each.devices}
        if doomed.intersection(plan.kept) or not set(plan.destroy) <= set(sight.instances):
            raise _StoppedError(Reason.NVML_FAILED, f"{sight} is not what was planned for any more")
        running = sight.pids(None if plan.switches else [each.id for each in plan.destroy])
        if running:
            among = await self._named(sight.gpu, running)
            people = ", ".join(map(str, among))
            raise _StoppedError(Reason.IN_USE, f"{sight} is in use by {people}", among)
        # Where a mode may need a reset, who forbids that is found before an instance is gone.
        resets = plan.switches and sight.gpu.compute_capability < TOGGLES_WITHOUT_RESET
        if resets and plan.destroy and (others := await self._clients(sight.gpu)):
            raise _in_use(sight.gpu, others)
        return sight

    async def _sight(self, uuid: str) -> GpuSight:
        sight = await self._eye.see_one(uuid)
        if sight is None:
            raise _StoppedError(Reason.GPU_UNAVAILABLE, f"NVML no longer lists {uuid}")
        if sight.trouble:
            raise _StoppedError(Reason.GPU_UNAVAILABLE, sight.trouble)
        return sight

    async def _write(self, sight: GpuSight, step: steps.Step, traceparent: str) -> None:
        span = self._telemetry.begin(SPANS[type(step)], traceparent)
        error = ""
        try:
            if isinstance(step, steps.Destroy):
                self.writes[sight.uuid] += 1 + len(step.instance.devices)
                await self._hands.destroy_instance(sight.gpu, step.instance.id)
            elif isinstance(step, steps.Create):
                self.writes[sight.uuid] += 2
                profile = _board(sight).profile(step.place.profile)
                await self._hands.create_instance(sight.gpu, profile, step.place.start)
            else:
                await self._switch(sight.gpu, step, span.traceparent)
        except (errors.NvmlError, _StoppedError) as failure:
            error = str(failure)
            raise
        finally:
            attributes: dict[str, spans.Attribute] = {"gpu": sight.uuid, "step": str(step)}
            self._telemetry.end(span, attributes=attributes, error=error)
            self._count(CALLS[type(step)], error)
            _log(f"{sight}: {step}", error, gpu=sight.uuid, trace=span.trace_id)

    async def _switch(self, gpu: Gpu, step: steps.Switch, traceparent: str) -> None:
        """Set the mode; where it stays pending, everybody lets NVML go and the GPU is reset."""
        self.writes[gpu.uuid] += 1
        asked = await self._hands.set_mig_mode(gpu, on=step.on)
        if asked.mode.current is step.on:
            return
        await self._eye.let_go()
        among = await self._clients(gpu)
        if among:
            raise _in_use(gpu, among)
        await self._reset_gpu(gpu, traceparent)
        # The caller's block closes NVML; it is to be open for what follows.
        await self._eye.reopen()
        sight = await self._sight(gpu.uuid)
        if sight.gpu.mig_enabled is not step.on:
            raise _StoppedError(
                Reason.REBOOT_REQUIRED,
                f"MIG mode of GPU {gpu.index} stays pending after a reset: reboot the node",
            )

    async def _reset_gpu(self, gpu: Gpu, traceparent: str) -> None:
        span = self._telemetry.begin("reset GPU", traceparent)
        self.writes[gpu.uuid] += 1
        error = ""
        try:
            await self._reset(gpu.uuid)
        except errors.NvmlError as failure:
            error = str(failure)
            if isinstance(failure, errors.InUseError):
                raise _in_use(gpu, await self._clients(gpu)) from failure
            raise _StoppedError(Reason.REBOOT_REQUIRED, error) from failure
        finally:
            self._telemetry.end(span, attributes={"gpu": gpu.uuid}, error=error)
            _log(f"GPU {gpu.index}: reset", error, gpu=gpu.uuid, trace=span.trace_id)
            self._count("reset", error)

    def _count(self, call: str, error: str) -> None:
        outcome = "refused" if error else "done"
        self._telemetry.meters.count(catalogue.MIG_WRITES, call=call, outcome=outcome)

    async def _read_back(self, plan: GpuPlan) -> None:
        sight = await self._sight(plan.uuid)
        places = {sights.place_of(each) for each in sight.instances if each.whole}
        stay = {device for each in sight.instances for device in each.devices}
        if not (set(plan.create) <= places and set(plan.kept) <= stay):
            raise _StoppedError(Reason.NVML_FAILED, f"{sight} does not show what was made")

    async def _clients(self, gpu: Gpu) -> tuple[Client, ...]:
        look = functools.partial(clients.holding, gpu.minor, self._proc, {os.getpid()})
        return await asyncio.to_thread(look)

    async def _named(self, gpu: Gpu, pids: tuple[int, ...]) -> tuple[Client, ...]:
        names = {client.pid: client for client in await self._clients(gpu)}
        return tuple(names.get(pid, Client(pid, "a process")) for pid in pids)


def _log(write: str, error: str, **about: object) -> None:
    """A line for each write, whether it went well or not."""
    level = logging.WARNING if error else logging.INFO
    log.log(level, "%s: %s", write, error or "done", extra=logs.about(**about))


def _in_use(gpu: Gpu, among: tuple[Client, ...]) -> _StoppedError:
    people = ", ".join(map(str, among)) or "a client that /proc does not show"
    return _StoppedError(
        Reason.IN_USE,
        f"GPU {gpu.index} is in use by {people}: end it, then it is tried again",
        among,
    )


def _board(sight: GpuSight) -> Board:
    if sight.board is None:
        raise _StoppedError(Reason.NVML_FAILED, f"{sight} cannot do MIG")
    return sight.board


def _reason(error: errors.NvmlError) -> Reason:
    if isinstance(error, errors.InUseError):
        return Reason.IN_USE
    if isinstance(error, errors.AwayError | errors.LostError | errors.SilentError):
        return Reason.GPU_UNAVAILABLE
    return Reason.NVML_FAILED
