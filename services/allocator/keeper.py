"""The one owner of the ledger's state: events in, standing and messages out.

`desk` (Allocate), `pod_resources` (List), `sources` (inventory) and the bus (hold) hand events in;
after each the standing is derived anew, and `run` tells disk, bus and endpoints what has changed.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from services.allocator import account, forms, ledger, standing
from services.allocator.checkpoint import Checkpoint
from services.allocator.grants import Listed
from services.allocator.ledger import Change, State
from services.allocator.standing import Standing
from services.allocator.told import Told
from shared.contract.facts import Fact, FactKind
from shared.contract.messages import Hold, Inventory, Ledger, Stamp
from shared.contract.mps import HeldForms
from shared.runtime import clock, latest, logs
from shared.telemetry import catalogue, context, spans

log = logging.getLogger(__name__)
LEVELS = dict.fromkeys((FactKind.REFUSED, FactKind.CONFLICT, FactKind.TAKEN_OVER), logging.WARNING)
BURST_S = 0.02  # Allocate calls of one pod come together; one derivation serves them all


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    """Where news go: ledger and facts to the bus, standings to the endpoints, forms to a file."""

    publish: Callable[[Ledger, str], None]
    tell: Callable[[Fact, str], None]
    show: Callable[[Standing, str], None]
    delivered: Callable[[], Awaitable[bool]]  # whether the kubelet has what was shown last
    held: Callable[[HeldForms], Awaitable[None]]  # to the MPS service


class Keeper:
    """State and standing of one node. `stamp` names the node and this process."""

    def __init__(
        self,
        state: State,
        checkpoint: Checkpoint,
        outlets: Outlets,
        *,
        stamp: Stamp,
        telemetry: spans.Telemetry,
        now_ns: Callable[[], int],
    ) -> None:
        self.state = state
        self.now_ns = now_ns
        self._standing = standing.derive(state)
        self._checkpoint = checkpoint
        self._outlets = outlets
        self._stamp = stamp
        self._telemetry = telemetry
        self._facts = 0
        self._stale = False  # an Allocate has changed the state since the standing was derived
        self._published: Ledger | None = None
        self._news: latest.Latest[tuple[State, Standing]] = latest.Latest()  # shown, not yet told
        self._wake = asyncio.Event()
        self._wake.set()
        telemetry.meters.count(catalogue.CONFLICTS, 0)

    @property
    def standing(self) -> Standing:
        """What slots may be handed out. It is behind only in who has those handed out just now.

        An Allocate never changes which other slots may be handed out, so its answer need not wait
        for a new derivation; `run` makes it.
        """
        return self._standing

    @property
    def published(self) -> Ledger | None:
        """The newest ledger that the bus was given."""
        return self._published

    @property
    def traceparent(self) -> str:
        """The change that the inventory in force answers."""
        return self.state.inventory.traceparent if self.state.inventory else ""

    async def allocated(self, resource: str, slots: Sequence[str], trace: str) -> None:
        """Take in an Allocate call; returns when a crash would not forget it."""
        at_ns = self.now_ns()
        self._take(ledger.allocated(self.state, resource, slots, at_ns, trace), trace)
        await self._checkpoint.note(resource, slots, at_ns, trace)

    def refused(self, resource: str, slots: Sequence[str], sentence: str, traceparent: str) -> None:
        """Tell that a request was not granted, and why."""
        self._tell(
            Told(
                kind=FactKind.REFUSED,
                at_ns=self.now_ns(),
                sentence=sentence,
                resource=resource,
                slots=tuple(slots),
            ),
            traceparent,
        )

    def taken_over(self, resource: str, sentence: str) -> None:
        """Tell that another plugin serves our resource."""
        at_ns = self.now_ns()
        self._tell(
            Told(kind=FactKind.TAKEN_OVER, at_ns=at_ns, sentence=sentence, resource=resource)
        )

    def registered(self, resource: str) -> None:
        """Tell that the kubelet knows our endpoint of a resource."""
        self._telemetry.meters.count(catalogue.REGISTRATIONS, resource=resource)
        self._tell(
            Told(
                kind=FactKind.REGISTERED,
                at_ns=self.now_ns(),
                sentence=f"{resource} is registered with the kubelet",
                resource=resource,
            )
        )

    def listed(self, rows: Sequence[Listed], asked_ns: int) -> None:
        """Take in a List."""
        before = self.state
        self._take(ledger.listed(before, rows, asked_ns))
        self._derive_if_stale()
        if not before.listed_ns:
            self._rebuilt(before)
            self._wake.set()

    def inventory(self, inventory: Inventory, confirmed: bool) -> None:
        """Take in the hardware and what it is to offer."""
        self._take(ledger.devices(self.state, inventory, confirmed=confirmed))
        self._derive_if_stale()

    def hold(self, hold: Hold) -> None:
        """Take in the agent's order to withhold slots."""
        about = logs.about(generation=hold.stamp.generation, gpus=hold.recut)
        if hold.recut:
            log.info("%d slots are withheld: %s", len(hold.slots), hold.reason, extra=about)
        elif self.state.hold is not None and self.state.hold.recut:
            log.info("no slot is withheld any more", extra=about)
        self._take(ledger.withheld(self.state, hold, self.now_ns()))
        self._derive_if_stale()

    async def run(self) -> None:
        """Tell all that has changed, for ever: endpoints at once, the bus when the disk has it.

        The two do not wait for each other. A GPU that falls sick must be off the kubelet's list
        whatever the disk does.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._show(), name="show standings")
            tasks.create_task(self._write(), name="write standings")
            tasks.create_task(self._write_again(), name="write standings again")

    async def _show(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._stale:
                await clock.sleep(BURST_S)
                self._derive_if_stale()
            self._outlets.show(self._standing, self.traceparent)
            self._news.put((self.state, self._standing))

    async def _write(self) -> None:
        while True:
            state, now_standing = await self._news.get()
            self._checkpoint.put(state)
            saved = await self._checkpoint.saved()
            held = await self._in_force(state) if saved else None
            self._publish(state, now_standing, held)
            if state.listed_ns and state.inventory is not None:
                await self._outlets.held(forms.held(state.grants.values(), state.inventory))

    async def _write_again(self) -> None:
        """A hold that the disk refused is in force when the disk has it, not at the next news."""
        while True:
            await self._checkpoint.mended()
            self._wake.set()

    async def _in_force(self, state: State) -> Hold | None:
        """Return the hold once nobody can get a withheld slot any more, None until then.

        The agent takes what the ledger says with it for certain: so List must have told who has
        what, and the kubelet must have the list on which idle slots no longer are.
        """
        hold = state.hold
        if hold is None or not (hold.slots or hold.recut) or not state.listed_ns:
            return None
        if await self._outlets.delivered():
            return hold
        self._wake.set()
        return None

    def _publish(self, state: State, now_standing: Standing, held: Hold | None) -> None:
        stamp = self._stamp
        if state.inventory is not None:
            stamp = dataclasses.replace(stamp, generation=state.inventory.stamp.generation)
        message = account.write(stamp, state, now_standing, held)
        if message != self._published:
            self._published = message
            self._outlets.publish(message, self.traceparent)

    def _take(self, change: Change, trace: str = "") -> None:
        if dataclasses.replace(change.state, listed_ns=self.state.listed_ns) != self.state:
            self._wake.set()
            self._stale = True
        self.state = change.state
        for told in change.facts:
            self._tell(told, trace=trace)

    def _derive_if_stale(self) -> None:
        if self._stale:
            self._standing = standing.derive(self.state)
            self._stale = False

    def _rebuilt(self, before: State) -> None:
        """Leave a span of what the first List after a start says about what we remembered."""
        step = self._telemetry.begin("rebuild ledger")
        self._telemetry.end(step, attributes=ledger.rebuilt(before, self.state))

    def _tell(self, told: Told, traceparent: str = "", trace: str = "") -> None:
        self._facts += 1
        if told.kind is FactKind.CONFLICT:
            self._telemetry.meters.count(catalogue.CONFLICTS)
        gpus = {
            slot.device.gpu_uuid
            for slot_id in told.slots
            if (slot := self._standing.slots.get(told.resource, {}).get(slot_id))
        }
        gpu = gpus.pop() if len(gpus) == 1 else ""
        trace = trace or context.trace_id(traceparent)
        about = logs.about(resource=told.resource, gpu=gpu, trace=trace)
        log.log(LEVELS.get(told.kind, logging.INFO), "%s", told.sentence, extra=about)
        fact = Fact(
            stamp=self._stamp,
            id=f"{self._stamp.writer}-{self._facts}",
            kind=told.kind,
            at_ns=told.at_ns,
            sentence=told.sentence,
            gpu_uuid=gpu,
            resource=told.resource,
            slots=told.slots,
            holders=told.holders,
        )
        self._outlets.tell(fact, traceparent)
