"""The ledger's memory on disk: what must outlive this process, and what another boot is worth.

State → `Memory` → files.Store. Writes are coalesced: whoever waits for `saved` waits for a write
that began after its change, and shares it with all others.
"""

from __future__ import annotations

import asyncio
import logging
import pathlib
from dataclasses import dataclass

from services.allocator import ledger
from services.allocator.grants import Grant
from services.allocator.ledger import State
from shared.contract import messages
from shared.contract.messages import Hold, Inventory
from shared.domain.slots import Holder
from shared.runtime import backoff, clock, files

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A holder whose slot the kubelet has given away since."""

    resource: str
    slot: str
    holder: Holder


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Layout 1 of the file."""

    grants: tuple[Grant, ...]
    ended: tuple[Ended, ...]
    inventory: Inventory | None
    confirmed: bool
    hold: Hold | None


def remember(state: State) -> bytes:
    """Write a state as the file's payload."""
    memory = Memory(
        grants=tuple(state.grants.values()),
        ended=tuple(
            Ended(resource=resource, slot=slot, holder=holder)
            for (resource, slot), holder in sorted(state.ended)
        ),
        inventory=state.inventory,
        confirmed=state.confirmed,
        hold=state.hold,
    )
    return messages.encode(memory)


def recall(payload: bytes, *, same_boot: bool, now_ns: int) -> State:
    """Read a payload. After a boot nothing is confirmed: MIG instances never survive one.

    Raises:
        UnreadableError: the payload is not a memory.
    """
    memory = messages.decode(Memory, payload)
    state = State(
        grants={grant.key: grant for grant in memory.grants},
        ended={((row.resource, row.slot), row.holder): 0 for row in memory.ended},
        inventory=memory.inventory,
        confirmed=memory.confirmed and same_boot,
        hold=memory.hold if same_boot else None,
    )
    return ledger.restored(state, now_ns)


class Checkpoint:
    """The file, and who waits for it."""

    def __init__(self, path: pathlib.Path, boot_id: str) -> None:
        self._store = files.Store(path, kind="ledger", version=1)
        self._boot_id = boot_id
        self._state = State()
        self._wanted = 0  # number of the newest state handed in
        self._tried = 0  # number of the newest state whose writing has ended
        self._on_disk = 0  # number of the newest state on disk
        self._wake = asyncio.Event()
        self._done = asyncio.Condition()

    async def load(self, now_ns: int) -> State:
        """Return what the last process knew, or an empty state to be filled from List."""
        saved = await self._store.read()
        if saved is None:
            return State()
        same_boot = saved.boot_id == self._boot_id != "unknown"
        try:
            return recall(saved.payload, same_boot=same_boot, now_ns=now_ns)
        except messages.UnreadableError as error:
            log.warning("%s: %s; starting from the kubelet's List", self._store.path, error)
            return State()

    def put(self, state: State) -> None:
        """Have this state written next; a state whose writing has not begun is superseded."""
        if state is self._state:
            return
        self._state = state
        self._wanted += 1
        self._wake.set()

    async def saved(self) -> bool:
        """Wait until what was put last, or something newer, is on disk; False if it refuses."""
        number = self._wanted
        async with self._done:
            await self._done.wait_for(lambda: self._tried >= number)
        return self._on_disk >= number

    async def run(self) -> None:
        """Write for ever. A disk that refuses does not stop the kubelet from being answered."""
        waits = backoff.Backoff(first=0.5)
        while True:
            await self._wake.wait()
            self._wake.clear()
            number, state = self._wanted, self._state
            try:
                payload = await asyncio.to_thread(remember, state)
                await self._store.write(payload, self._boot_id)
            except OSError as error:
                log.warning(
                    "cannot write %s (%s): a restart starts from List", self._store.path, error
                )
                await self._report(number)
                await clock.sleep(waits.next())
                self._wake.set()
            else:
                waits.reset()
                self._on_disk = number
                await self._report(number)

    async def _report(self, number: int) -> None:
        async with self._done:
            self._tried = number
            self._done.notify_all()
