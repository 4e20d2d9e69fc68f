"""A place on the bus that lasts as long as its process: one session after the other, for ever.

`open_bus` is what services call. It returns at once, also when NATS is away: a service starts,
serves, and joins later. Readers and writers wait for a session and begin anew with each.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pathlib
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass

from shared import version
from shared.bus import client as nats_client
from shared.bus import errors
from shared.bus.client import BusClient, nats_errors
from shared.bus.session import Session
from shared.contract import messages, permissions, table
from shared.contract.generation import NONE, Generation
from shared.contract.messages import Stamp
from shared.contract.table import Role
from shared.runtime import backoff, clock

log = logging.getLogger(__name__)
STEADY_S = 5.0  # a session that lasted this long was a good one
CLOSE_S = 2.0


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

    def __init__(
        self, url: str, user: str, password_file: pathlib.Path | None, role: Role, node: str
    ) -> None:
        self.role = role
        self.node = node
        self.writer = f"{role}/{version.__version__}/{secrets.token_hex(4)}"
        self.reconnects = 0
        self.known: dict[str, Known] = {}  # kept by `shared.bus.ensure`
        self._url = url
        self._user = user
        self._password_file = password_file
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
        await asyncio.to_thread(messages.prepare, table.spoken(self.role))
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
        client = BusClient()
        session = Session(client, permissions.inbox_prefix(self.role, self.node), self._left)
        try:
            await self._enter(client, session)
            await session.start()
            _heed_cancellation()
            self._entered(session)
            await session.ended.wait()
        finally:
            self._left()
            # Whatever closing raises (an AssertionError where the server was never reached) must
            # not take the place of a cancellation: the stop would be lost.
            with contextlib.suppress(Exception):
                async with asyncio.timeout(CLOSE_S):
                    await client.close()

    async def _enter(self, client: BusClient, session: Session) -> None:
        password = await asyncio.to_thread(_read, self._password_file)
        reasons: list[Exception] = []

        async def on_error(error: Exception) -> None:
            reasons[:] = [error]
            if "permissions violation" in str(error):
                log.warning("the bus refuses %s what our table allows: %s", self._user, error)

        async def on_closed() -> None:
            session.end()

        try:
            await client.connect(
                servers=self._url.split(","),
                name=f"slicewire {self.role} {self.node}".strip(),
                user=self._user or None,
                password=password or None,
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
        log.info("on the bus at %s as %s", self._url, self._user or self.role)
        self.reconnects += self._session is not None
        self.trouble = ""
        self._session = session
        self._present.set()

    def _left(self) -> None:
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


@contextlib.asynccontextmanager
async def open_bus(
    url: str, user: str, password_file: pathlib.Path | None, role: Role, node: str = ""
) -> AsyncIterator[Bus]:
    """Keep a place on the bus while the block runs.

    `url` may name several servers, with commas. The password is read anew for each connection, so
    a changed Secret needs no restart.
    """
    bus = Bus(url, user, password_file, role, node)
    failure: Exception | None = None
    async with asyncio.TaskGroup() as tasks:
        keeping = tasks.create_task(bus.keep(), name="bus connection")
        try:
            yield bus
        except Exception as error:  # raised below, outside of the task group
            failure = error
        finally:
            keeping.cancel()
    if failure is not None:
        raise failure


def _read(path: pathlib.Path | None) -> str:
    return path.read_text(encoding="utf-8").strip() if path else ""
