"""Standings → one endpoint for each resource, and the newest list in each.

A resource that is offered no more gets an empty list before others get theirs, and its endpoint
goes when nobody holds a slot of it. A resource of which there are only holders, and that we have
never offered, is another plugin's, and stays it. With nothing known yet, `nvidia.com/gpu` stands
empty: the kubelet then waits for devices instead of failing pods.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable

from services.allocator import endpoint as endpoint_
from services.allocator.standing import Standing
from shared.domain.sharing import GPU_RESOURCE
from shared.runtime import latest, logs
from shared.telemetry import context

log = logging.getLogger(__name__)
DELIVERY_S = 1.0  # how long others wait for the kubelet to take a list


class Endpoints:
    """All endpoints of the node. `make` builds the one of a resource."""

    def __init__(self, make: Callable[[str], endpoint_.Endpoint]) -> None:
        self._make = make
        self._running: dict[str, tuple[endpoint_.Endpoint, asyncio.Task[None]]] = {}
        self._standings: latest.Latest[tuple[int, Standing, str]] = latest.Latest()
        self._shown = 0  # number of the newest standing
        self._applied = 0  # number of the newest that every endpoint has
        self._moved = asyncio.Condition()

    def show(self, standing: Standing, traceparent: str) -> None:
        """Have the kubelet see this; a standing not shown yet is superseded."""
        self._shown += 1
        self._standings.put((self._shown, standing, traceparent))

    async def delivered(self) -> bool:
        """Wait a while until the kubelet has what was shown last; say whether it has.

        A resource that nobody reads has nobody who could act on an older list.
        """
        number = self._shown
        try:
            async with asyncio.timeout(DELIVERY_S):
                async with self._moved:
                    await self._moved.wait_for(lambda: self._applied >= number)
                for running, _ in list(self._running.values()):
                    if running.plugin.streams:
                        await running.plugin.delivered()
        except TimeoutError:
            return False
        return True

    def wake(self) -> None:
        """Make every endpoint look at its folder again."""
        for running, _ in self._running.values():
            running.wake()

    @property
    def names(self) -> frozenset[str]:
        """Names of the sockets that are served."""
        return frozenset(running.name for running, _ in self._running.values())

    def leave(self) -> None:
        """Leave sockets and registrations to a successor; calls go on being answered."""
        for running, _ in self._running.values():
            running.leave()

    async def idle(self) -> None:
        """Wait until no Allocate is being answered."""
        for running, _ in list(self._running.values()):
            await running.plugin.idle()

    async def run(self) -> None:
        """Follow the standings for ever."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                number, standing, traceparent = await self._standings.get()
                await self._apply(standing, traceparent, tasks)
                async with self._moved:
                    self._applied = number
                    self._moved.notify_all()

    async def _apply(self, standing: Standing, traceparent: str, tasks: asyncio.TaskGroup) -> None:
        ours = standing.ours | self._running.keys()
        wanted = tuple(name for name in standing.slots if name in ours) or (GPU_RESOURCE,)
        emptied = [
            running for name, (running, _) in self._running.items() if not standing.listed(name)
        ]
        await self._empty(emptied, traceparent)
        for name in wanted:
            if name not in self._running:
                made = self._make(name)
                made.plugin.show(standing.listed(name), traceparent)
                task = tasks.create_task(made.run(), name=f"endpoint {made.name}")
                self._running[name] = (made, task)
            else:
                self._running[name][0].plugin.show(standing.listed(name), traceparent)
        for name in self._running.keys() - set(wanted):
            _, task = self._running.pop(name)
            task.cancel()
            about = logs.about(resource=name, trace=context.trace_id(traceparent))
            log.info("%s is served no more: nobody holds any of it", name, extra=about)

    async def _empty(self, emptied: Iterable[endpoint_.Endpoint], traceparent: str) -> None:
        for running in emptied:
            before = running.plugin.listing
            running.plugin.show((), traceparent)
            if before:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(DELIVERY_S):
                        await running.plugin.delivered()
