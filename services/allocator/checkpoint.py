"""The ledger's memory on disk: what must outlive this process, and what another boot is worth.

State → `Memory` → files.Store, coalesced: whoever waits for `saved` shares a write that began
after its change. Allocate calls go into the journal first and into the next write then.
"""

from __future__ import annotations

import asyncio
import logging
import pathlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from services.allocator import ledger
from services.allocator.grants import Grant
from services.allocator.journal import Entry, Journal
from services.allocator.ledger import State
from shared.contract import codec
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
    """Layout 1 of the file; `noted` is the number of the last journal entry that it holds."""

    noted: int
    grants: tuple[Grant, ...]
    ended: tuple[Ended, ...]
    inventory: Inventory | None
    confirmed: bool
    hold: Hold | None


def remember(state: State, noted: int) -> Memory:
    """Say what of a state is worth keeping."""
    return Memory(
        noted=noted,
        grants=tuple(state.grants.values()),
        ended=tuple(
            Ended(resource=resource, slot=slot, holder=holder)
            for (resource, slot), holder in sorted(state.ended)
        ),
        inventory=state.inventory,
        confirmed=state.confirmed,
        hold=state.hold,
    )


def recall(memory: Memory, entries: Iterable[Entry] = (), *, same_boot: bool, now_ns: int) -> State:
    """Make a state of a memory and what was noted after it.

    After a boot nothing is confirmed: MIG instances never survive one.
    """
    state = State(
        grants={grant.key: grant for grant in memory.grants},
        ended={((row.resource, row.slot), row.holder): 0 for row in memory.ended},
        inventory=memory.inventory,
        confirmed=memory.confirmed and same_boot,
        hold=memory.hold if same_boot else None,
    )
    later = (entry for entry in entries if entry.number > memory.noted)
    return ledger.restored(replayed(state, later), now_ns)


def replayed(state: State, entries: Iterable[Entry]) -> State:
    """Take Allocate calls in again."""
    for entry in entries:
        state = ledger.allocated(state, entry.resource, entry.slots, entry.at_ns, entry.trace).state
    return state


class Checkpoint:
    """The file and its journal, and who waits for them."""

    def __init__(self, path: pathlib.Path, boot_id: str) -> None:
        self._store = files.Store(path, kind="ledger", version=1)
        self._journal = Journal(path.with_suffix(".journal"))
        self._boot_id = boot_id
        self._state = State()
        self._noted = 0  # number of the newest journal entry
        self._included = 0  # number of the newest entry that `_state` has
        self._wanted = 0  # number of the newest state handed in
        self._on_disk = 0  # number of the newest state on disk
        self._refuses = False  # the last write failed, and the next one is not done
        self._wake = asyncio.Event()
        self._done = asyncio.Condition()

    async def load(self, now_ns: int) -> State:
        """Return what the last process knew, or what its journal has, to be filled from List."""
        saved = await self._store.read()
        entries = await self._journal.read()
        memory = self._memory(saved) if saved else None
        noted = memory.noted if memory else 0
        self._noted = max((noted, *(entry.number for entry in entries)))
        if memory is None or saved is None:
            return ledger.restored(replayed(State(), entries), now_ns)
        same_boot = saved.boot_id == self._boot_id != "unknown"
        return recall(memory, entries, same_boot=same_boot, now_ns=now_ns)

    async def note(self, resource: str, slots: Sequence[str], at_ns: int, trace: str) -> None:
        """Write an Allocate call down; returns when a crash would not forget it.

        A disk that refuses does not stop the kubelet from being answered.
        """
        self._noted += 1
        entry = Entry(
            number=self._noted, resource=resource, slots=tuple(slots), at_ns=at_ns, trace=trace
        )
        try:
            await self._journal.append(entry)
        except OSError as error:
            log.warning("cannot note a grant (%s): a restart starts from List", error)

    def put(self, state: State) -> None:
        """Have this state written next; a state whose writing has not begun is superseded."""
        if state is self._state:
            return
        self._state = state
        self._included = self._noted
        self._wanted += 1
        self._wake.set()

    async def saved(self) -> bool:
        """Wait until what was put last, or something newer, is on disk; False if it refuses.

        A disk that has refused is not waited for: nobody knows when it takes a write again, and
        `mended` says so.
        """
        number = self._wanted
        async with self._done:
            await self._done.wait_for(lambda: self._refuses or self._on_disk >= number)
        return self._on_disk >= number

    async def mended(self) -> None:
        """Wait until the disk has refused a write and has taken a later one."""
        async with self._done:
            await self._done.wait_for(lambda: self._refuses)
            await self._done.wait_for(lambda: not self._refuses)

    async def run(self) -> None:
        """Write for ever."""
        waits = backoff.Backoff(first=0.5)
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                number = self._wanted
                written = await self._write(self._state, self._included)
                await self._report(number, written)
                if written:
                    waits.reset()
                else:
                    await clock.sleep(waits.next())
                    self._wake.set()
        finally:
            self._journal.close()

    def _memory(self, saved: files.Saved) -> Memory | None:
        try:
            return codec.decode(Memory, saved.payload)
        except codec.UnreadableError as error:
            log.warning("%s: %s; starting from the kubelet's List", self._store.path, error)
            return None

    async def _write(self, state: State, included: int) -> bool:
        try:
            payload = await asyncio.to_thread(_payload, state, included)
            await self._store.write(payload, self._boot_id)
            await self._journal.empty(lambda: included == self._noted)
        except OSError as error:
            log.warning("cannot write %s (%s): a restart starts from List", self._store.path, error)
            return False
        return True

    async def _report(self, number: int, written: bool) -> None:
        async with self._done:
            self._on_disk = number if written else self._on_disk
            self._refuses = not written
            self._done.notify_all()


def _payload(state: State, noted: int) -> bytes:
    return codec.encode(remember(state, noted))
