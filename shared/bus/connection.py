"""A place on the bus that lasts as long as its process: one session after the other, for ever.

`open_bus` is what services call. It returns at once, also when NATS is away: a service starts,
serves, and joins later. Readers and writers wait for a session and begin anew with each.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass

from shared import version
from shared.bus import client as nats_client
from shared.bus import errors
from shared.bus.client import BusClient, nats_errors
from shared.bus.login import Login, Shown
from shared.bus.session import Session
from shared.contract import codec, permissions, table
from shared.contract.generation import NONE, Generation
from shared.contract.messages import Stamp
from shared.contract.table import Role
from shared.runtime import backoff, beside, clock

log = logging.getLogger(__name__)
STEADY_S = 5.0  # a session that lasted this long was a good one
CLOSE_S = 2.0


@dataclass(frozen=True, slots=True)
class _Place:
    """One connection that has been let in."""

    client: BusClient
    session: Session


@dataclass(frozen=True, slots=True)
class Known:
    """What was last seen of a bucket: its store and its last sequence."""

    store: int = 0
    sequence: int = 0


class Bus:
    """Who we are on the bus, and the session of now.

    `writer` is new for each process and says which version writes. `trouble` says why we are not
    on the bus, empty where we are or have not tried yet.
    """

    def __init__(self, url: str, login: Login, role: Role, node: str) -> None:
        self.role = role
        self.node = node
        self.writer = f"{role}/{version.__version__}/{secrets.token_hex(4)}"
        self.reconnects = 0
        self.known: dict[str, Known] = {}  # kept by `shared.bus.ensure`
        self._url = url
        self._login = login
        self._session: Session | None = None
        self._present = asyncio.Event()
        self.trouble = ""

    @property
    def connected(self) -> bool:
        """Whether the server has let us in and the connection stands."""
        return self._present.is_set()

    def stamp(self, node: str, generation: Generation = NONE) -> Stamp:
        """The stamp of a message of ours about `node`; the store is filled in on writing."""
        return Stamp(node=node, writer=self.writer, generation=generation)

    async def session(self) -> Session:
        """Wait for a connection."""
        while True:
            await self._present.wait()
            if self._session is not None:
                return self._session

    async def keep(self) -> None:
        """Enter, and enter again whenever the connection ends; never returns."""
        await asyncio.to_thread(codec.prepare, table.spoken(self.role))
        waits = backoff.Backoff()
        while True:
            since = clock.loop_time()
            try:
                await self._one_session()
            except Exception as error:  # whatever nats-py raises, the next try may go well
                _heed_cancellation()
                self._complain(str(error) or type(error).__name__)
            if clock.loop_time() - since > STEADY_S:
                waits.reset()
            await clock.sleep(waits.next())

    async def _one_session(self) -> None:
        """Enter, and stay until the connection ends; a login that would end is renewed before."""
        place: _Place | None = await self._enter()
        while place is not None:
            successor = None
            try:
                self._entered(place.session)
                successor = await self._outlive(place.session)
            finally:
                if successor is None:
                    self._left(place.session)
                await _close(place.client)
            place = successor

    async def _outlive(self, session: Session) -> _Place | None:
        """Wait for the session's end; return its successor if the login was renewed before.

        The new connection stands before the old one is given up, so an outage of whoever reviews
        logins costs nothing while the old login lasts.
        """
        wait = self._login.renew_after()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await session.ended.wait()
                    return None
            try:
                return await self._enter()
            except Exception as error:  # as in `keep`: whatever it was, the next try may go well
                _heed_cancellation()
                log.warning("the login was not renewed: %s; the present one goes on", error)
                wait = self._login.try_again_after()

    async def _enter(self) -> _Place:
        """Open a connection and its inbox."""
        shown = await asyncio.to_thread(self._login.read)
        client = BusClient(shown.public_key)
        session = Session(client, permissions.inbox_prefix(self.role, self.node), self._left)
        try:
            await self._connect(client, session, shown)
            await session.start()
            _heed_cancellation()
        except BaseException:
            await _close(client)
            raise
        return _Place(client, session)

    async def _connect(self, client: BusClient, session: Session, shown: Shown) -> None:
        reasons: list[Exception] = []

        async def on_error(error: Exception) -> None:
            reasons[:] = [error]
            if "permissions violation" in str(error):
                log.warning("the bus refuses %s what our table allows: %s", self.role, error)

        async def on_closed() -> None:
            session.end()

        try:
            await client.connect(
                servers=self._url.split(","),
                name=f"slicewire {self.role} {self.node}".strip(),
                user=self._login.user or None,
                password=shown.password or None,
                token=shown.token or None,
                signature_cb=shown.sign,
                inbox_prefix=permissions.inbox_prefix(self.role, self.node),
                allow_reconnect=False,
                max_reconnect_attempts=1,  # to find an address where there are several
                reconnect_time_wait=0,
                connect_timeout=nats_client.CONNECT_TIMEOUT_S,
                ping_interval=nats_client.PING_INTERVAL_S,
                max_outstanding_pings=nats_client.MAX_OUTSTANDING_PINGS,
                pending_size=0,  # nothing is kept while away and sent late
                error_cb=on_error,
                closed_cb=on_closed,
            )
        except nats_errors.NoServersError as error:
            raise errors.LostError(str(reasons[-1]) if reasons else str(error)) from error

    def _entered(self, session: Session) -> None:
        log.info("on the bus at %s as %s", self._url, self._login.user or self.role)
        self.reconnects += self._session is not None
        self.trouble = ""
        self._session = session
        self._present.set()

    def _left(self, session: Session) -> None:
        """The session is over; a successor that has entered already stays."""
        if session is self._session:
            self._present.clear()

    def _complain(self, reason: str) -> None:
        level = logging.DEBUG if reason == self.trouble else logging.WARNING
        log.log(level, "not on the bus at %s: %s; trying again for ever", self._url, reason)
        self.trouble = reason


def _heed_cancellation() -> None:
    """Raise a cancellation that was swallowed on the way.

    nats-py catches some, and `asyncio.wait_for` before Python 3.12 loses one that comes together
    with the answer; without this look a stop during a login would wait for ever.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _close(client: BusClient) -> None:
    # Whatever closing raises (an AssertionError where the server was never reached) must not take
    # the place of a cancellation: the stop would be lost.
    with contextlib.suppress(Exception):
        async with asyncio.timeout(CLOSE_S):
            await client.close()


@contextlib.asynccontextmanager
async def open_bus(url: str, login: Login, role: Role, node: str = "") -> AsyncIterator[Bus]:
    """Keep a place on the bus while the block runs.

    `url` may name several servers, with commas. Password and token are read anew for each
    connection, so a changed Secret needs no restart.
    """
    bus = Bus(url, login, role, node)
    async with beside.running(bus.keep(), "bus connection"):
        yield bus
