"""One resource's socket, kept registered with whatever kubelet is there, for as long as we serve.

Registers at once with a new kubelet; makes the socket anew when it has vanished; registers again
when the kubelet counts with nobody; steps back while it counts with another plugin. `endpoints`
runs one for each resource.

No name of a socket is used twice. Where a kubelet (seen at 1.37) still reads a stream from a
socket, it refuses a registration under the same name, and then forgets to notice the end of that
stream: the resource would stay with the list of a plugin that is gone until the kubelet restarts.
A kubelet from 1.35 on comes back to us when the plugin before which we stepped back ends, but keeps
that one's list until it gets ours again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping

from services.allocator import keeper as keepers
from services.allocator import plugin as plugins
from services.allocator import pod_resources, sight
from services.allocator.folder import KUBELET, OURS, Folder, Identity, Look
from services.allocator.sight import Sight
from shared.kubelet import sockets
from shared.kubelet.v1beta1 import api_grpc, api_pb2
from shared.runtime import backoff, clock

log = logging.getLogger(__name__)
VERSION = "v1beta1"
MARKS = 256  # what tells sockets of one resource apart
DOMAIN = "nvidia.com"
REGISTER_S = 5.0
CHECK_EVERY_S = 5.0
SETTLE_S = 0.2  # a kubelet notes the end of a stream a moment after we do
STEADY_S = 10.0  # a registration that held so long starts the back-off anew
LONGEST_NAME = 45  # with the folder, a socket's path must stay below 108 bytes

Allocatable = Callable[[], Awaitable[Mapping[str, frozenset[str]]]]


class Endpoint:
    """Serves `plugin`. `wake` makes it look at the folder again."""

    def __init__(
        self,
        plugin: plugins.Plugin,
        folder: Folder,
        keeper: keepers.Keeper,
        allocatable: Allocatable,
    ) -> None:
        self.plugin = plugin
        self._folder = folder
        self._keeper = keeper
        self._allocatable = allocatable
        self._wake = asyncio.Event()
        self._waits = backoff.Backoff(first=0.05)
        self._kubelet: Identity | None = None  # the kubelet.sock that we registered at
        self._since = 0.0  # loop time of that registration
        self._stepped_back = False
        self._taken_by = ""  # the socket before which we stepped back
        self._leaving = False
        self.name = self._new_name()

    def leave(self) -> None:
        """Answer on the connections that stand, and leave socket and registration to others."""
        self._leaving = True

    def wake(self) -> None:
        """The folder changed, or a stream ended."""
        self._wake.set()

    async def run(self) -> None:
        """Serve until cancelled; a socket that vanished is made anew."""
        while True:
            self.name = self._new_name()
            try:
                async with sockets.UnixServer(self._folder.path / self.name, [self.plugin]):
                    self._kubelet = None
                    await self._stay((await self._folder.look()).sockets.get(self.name))
            except OSError as error:
                log.warning("%s cannot be served: %s", self.plugin.resource, error)
                await self._rest(self._waits.next())

    async def _stay(self, socket: Identity | None) -> None:
        """Stay registered until our socket has gone from the folder or is of no more use."""
        while True:
            look = self._folder.current
            pause: float | None
            if self._leaving:
                await asyncio.Event().wait()
            if socket is None or look.sockets.get(self.name) != socket:
                return
            if look.kubelet is None:
                pause = CHECK_EVERY_S
            elif look.kubelet != self._kubelet:
                pause = await self._register(look)
            else:
                pause = await self._check(look)
            if pause is None:
                return
            await self._rest(pause)

    async def _check(self, look: Look) -> float | None:
        """Act on whom the kubelet counts with.

        Return how long to rest, or None where only a new socket helps.
        """
        found = await self._see_twice()
        if found is None:
            return CHECK_EVERY_S
        if found is Sight.NOBODY:
            if clock.loop_time() - self._since > STEADY_S:
                self._waits.reset()
            await clock.sleep(self._waits.next())
            return None if self.plugin.streams else await self._register(look)
        self._step_back(foreign=found is Sight.FOREIGN)
        if (
            self._taken_by
            and self.plugin.streams
            and not await self._folder.is_served(self._taken_by)
        ):
            self.plugin.show_again()
        return CHECK_EVERY_S

    async def _see_twice(self) -> Sight | None:
        """Say whom the kubelet counts with; two looks must agree that it is not us.

        Return None where it may only be behind: between the looks it was taking a list.
        """
        listing, taking = self.plugin.listing, self.plugin.taking
        found = await self._see()
        if found is Sight.OURS:
            return found
        await clock.sleep(SETTLE_S)
        found = await self._see()
        behind = taking or self.plugin.taking or self.plugin.listing is not listing
        return None if behind and self.plugin.streams else found

    async def _see(self) -> Sight:
        healthy = {slot for slot, health, _ in self.plugin.listing if health == plugins.HEALTHY}
        try:
            seen = (await self._allocatable()).get(self.plugin.resource, frozenset())
        except pod_resources.FAILURES:
            # Without the kubelet's count only the stream tells, and it never names another plugin.
            return Sight.OURS if self.plugin.streams else Sight.NOBODY
        return sight.judge(streams=self.plugin.streams, ours=healthy, seen=seen)

    def _step_back(self, *, foreign: bool) -> None:
        if foreign and not self._stepped_back:
            self._taken_by = self._folder.current.newest_foreign
            self._keeper.taken_over(
                self.plugin.resource,
                f"another plugin ({self._taken_by or 'an unknown socket'}) has registered"
                f" {self.plugin.resource} at the kubelet;"
                " remove it, slicewire takes the resource again when it is gone",
            )
        self._stepped_back = foreign
        self._taken_by = self._taken_by if foreign else ""

    async def _register(self, look: Look) -> float:
        """Register; return how long to rest. A refusal or an absence is tried again.

        Not where the folder has changed since `look`: a kubelet that starts removes our socket
        first and makes its own then, and must not be told of one that is gone.
        """
        if await self._folder.look() != look:
            return 0.0
        request = api_pb2.RegisterRequest(
            version=VERSION,
            endpoint=self.name,
            resource_name=self.plugin.resource,
            options=plugins.options(),
        )
        try:
            async with sockets.channel(self._folder.path / KUBELET) as channel:
                await api_grpc.RegistrationStub(channel).Register(request, timeout=REGISTER_S)
        except pod_resources.FAILURES as error:
            pause = self._waits.next()
            reason = pod_resources.reason(error, REGISTER_S)
            log.warning("%s is not registered: %s; again", self.plugin.resource, reason)
            return pause
        self._kubelet = look.kubelet
        self._since = clock.loop_time()
        self._stepped_back = False
        self._keeper.registered(self.plugin.resource)
        await self._folder.remove(lambda name: name != self.name and same_resource(name, self.name))
        return CHECK_EVERY_S

    def _new_name(self) -> str:
        """A name that is not in the folder, where a process before us may still be served."""
        names = (socket_name(self.plugin.resource, f"{mark:02x}") for mark in range(MARKS))
        return secrets.choice([name for name in names if name not in self._folder.current.sockets])

    async def _rest(self, pause: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._wake.wait()
        self._wake.clear()


def socket_name(resource: str, mark: str) -> str:
    """Name a socket of a resource: short enough for its folder, and no other's."""
    domain, _, name = resource.partition("/")
    if domain != DOMAIN:
        name = f"{domain}_{name}"
    if len(name) > LONGEST_NAME:
        name = f"{name[: LONGEST_NAME - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return f"{OURS}{name}.{mark}.sock"


def same_resource(one: str, other: str) -> bool:
    """Whether two names of sockets differ at most in their marks."""
    return one.rsplit(".", 2)[0] == other.rsplit(".", 2)[0]
