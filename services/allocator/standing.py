"""State of the ledger → what each slot counts as, what the kubelet is to see, rows and counts.

Pure. `keeper` derives a `Standing` after each event; the Allocate path only looks slots up in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from services.allocator import daemons, forms, hardware
from services.allocator.grants import Grant, Key
from services.allocator.hardware import Device
from services.allocator.ledger import State
from services.allocator.withholding import NOTHING, Withheld
from shared.contract.messages import Hold
from shared.domain import slots as slot_ids
from shared.domain.sharing import AllocationPolicy, Offer, Share, Strategy
from shared.domain.slots import SlotState
from shared.sharing import expand

TAKEN = frozenset({SlotState.RETIRING, SlotState.HELD, SlotState.GRANTED})


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot of one resource. `trouble` says why it is not handed out, empty if it may be.

    `listed` is whether the kubelet sees it: what retires, or is withheld and idle, it does not.
    `strategy` is how its holder shares the device, or the next one will.
    """

    id: str
    resource: str
    device: Device
    state: SlotState
    listed: bool
    trouble: str
    strategy: Strategy = Strategy.NONE

    @property
    def taken(self) -> bool:
        """Whether somebody has it on a device that is still there."""
        return self.state in TAKEN


@dataclass(frozen=True, slots=True)
class Rules:
    """How slots of a resource are chosen; `one_only` names the field that limits requests to 1."""

    policy: AllocationPolicy = AllocationPolicy.DISTRIBUTED
    one_only: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """Slots by resource and id, by GPU index and then by number; the rules of each resource.

    Resources stand in the order of their first device; those that only have holders come last.
    `ours` are those that are offered, or were when somebody was seen to get a slot: the others
    are another plugin's, whose ids look like ours. `emptying` says that a change of layout waits
    for holders of withheld slots to go.
    """

    slots: Mapping[str, Mapping[str, Slot]] = field(default_factory=dict)
    rules: Mapping[str, Rules] = field(default_factory=dict)
    ours: frozenset[str] = frozenset()
    emptying: bool = False

    def listed(self, resource: str) -> tuple[Slot, ...]:
        """What the kubelet is to see of a resource."""
        return tuple(slot for slot in self.slots.get(resource, {}).values() if slot.listed)

    def taken_elsewhere(self, resource: str) -> Counter[str]:
        """How many slots of other resources somebody has, by GPU and by MIG device."""
        return places(
            slot
            for other, slots in self.slots.items()
            if other != resource
            for slot in slots.values()
            if slot.taken
        )


def places(slots: Iterable[Slot]) -> Counter[str]:
    """How many of these slots are on each GPU, and on each of its MIG devices."""
    found: Counter[str] = Counter()
    for slot in slots:
        found[slot.device.gpu_uuid] += 1
        if slot.device.uuid != slot.device.gpu_uuid:
            found[slot.device.uuid] += 1
    return found


def derive(state: State) -> Standing:
    """Say what every slot is, from the state alone."""
    shares = state.inventory.shares if state.inventory else ()
    world = _World(
        grants=state.grants,
        known=hardware.devices(state.inventory, confirmed=state.confirmed),
        forms=forms.offered(shares),
        daemons=daemons.by_gpu(state.inventory),
    )
    hold = _Withholding.of(state.hold, state.grants, world.known)
    slots: dict[str, dict[str, Slot]] = {}
    for offer in expand.expand(shares, _holders(state.grants), forms.known(state.grants)):
        for slot in _of_offer(offer, world, hold):
            slots.setdefault(offer.resource, {})[slot.id] = slot
    for grant in state.grants.values():
        if grant.slot not in slots.get(grant.resource, {}):
            slots.setdefault(grant.resource, {})[grant.slot] = _left_over(
                grant, world, looked=state.inventory is not None
            )
    rules = {share.resource: _rules(share) for share in shares}
    handed_out = {resource for resource, _ in forms.known(state.grants)}
    return Standing(slots, rules, frozenset(rules) | handed_out, emptying=hold.busy)


@dataclass(frozen=True, slots=True, kw_only=True)
class _World:
    """What there is beside the offers: grants, devices, in which forms they are shared."""

    grants: Mapping[Key, Grant]
    known: Mapping[str, Device]
    forms: forms.Forms
    daemons: daemons.Daemons


@dataclass(frozen=True, slots=True)
class _Withholding:
    """The agent's hold: slots stay listed, unhealthy, while anybody has one of them."""

    held: Withheld = NOTHING
    busy: bool = False
    reason: str = ""

    @classmethod
    def of(
        cls, hold: Hold | None, grants: Mapping[Key, Grant], known: Mapping[str, Device]
    ) -> _Withholding:
        if hold is None:
            return cls()
        found = cls(Withheld.by(hold), reason=f"it is withheld: {hold.reason}")
        devices = ((slot, known.get(slot_ids.device_of(slot))) for _, slot in grants)
        busy = any(device is not None and found.covers(slot, device) for slot, device in devices)
        return replace(found, busy=busy)

    def covers(self, slot: str, device: Device) -> bool:
        """Whether a slot is withheld."""
        return self.held.covers(slot, device.uuid, device.gpu_uuid)


def _of_offer(offer: Offer, world: _World, hold: _Withholding) -> Iterable[Slot]:
    device = world.known.get(offer.uuid) or hardware.absent(offer.uuid, offer.gpu_uuid)
    form = world.forms.get((offer.uuid, offer.resource), Strategy.NONE)
    sick = device.trouble or daemons.trouble(world.daemons, device.gpu_uuid, form)
    for slot in offer.slots:
        withheld = hold.covers(slot, device)
        trouble = sick or (hold.reason if withheld else "")
        grant = world.grants.get((offer.resource, slot))
        state = _state(grant, device, trouble, retiring=False)
        listed = hold.busy or not withheld
        yield Slot(slot, offer.resource, device, state, listed, trouble, form)
    for slot in offer.retiring:
        yield _ending(world.grants[offer.resource, slot], device, world, retiring=True)


def _left_over(grant: Grant, world: _World, *, looked: bool) -> Slot:
    """A slot that somebody has and that nothing offers: its device is gone, or not seen yet."""
    uuid = slot_ids.device_of(grant.slot)
    device = world.known.get(uuid) or hardware.absent(uuid, uuid, gone=looked)
    return _ending(grant, device, world, retiring=looked)


def _ending(grant: Grant, device: Device, world: _World, *, retiring: bool) -> Slot:
    """A slot that is offered no more."""
    trouble = device.trouble or "it is no longer offered and ends with its holder"
    state = _state(grant, device, trouble, retiring=retiring)
    form = forms.of_grant(grant, world.forms)
    return Slot(grant.slot, grant.resource, device, state, False, trouble, form)


def _state(grant: Grant | None, device: Device, trouble: str, *, retiring: bool) -> SlotState:
    """The first that is true, in the order of `SlotState`."""
    if device.gone:
        return SlotState.LOST
    if grant is None:
        return SlotState.UNHEALTHY if trouble else SlotState.FREE
    if retiring:
        return SlotState.RETIRING
    return SlotState.GRANTED if grant.unresolved else SlotState.HELD


def _rules(share: Share) -> Rules:
    if share.replicas == 1 or not share.fail_requests_greater_than_one:
        return Rules(share.policy)
    kind = "mps" if share.strategy is Strategy.MPS else "timeSlicing"
    return Rules(share.policy, one_only=f"sharing.{kind}.failRequestsGreaterThanOne")


def _holders(grants: Mapping[Key, Grant]) -> Mapping[str, frozenset[str]]:
    held: dict[str, set[str]] = {}
    for resource, slot in grants:
        held.setdefault(resource, set()).add(slot)
    return {resource: frozenset(slots) for resource, slots in held.items()}
