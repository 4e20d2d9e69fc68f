"""Whatever edits, grants and releases come in whatever order, slots stay honest.

The machine plays the allocator: it lists what `expand` gives, grants listed slots only, and edits
the sharing of three devices (a GPU, a GPU that can be cut, and a MIG device inside it).
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from shared.domain import slots
from shared.domain.sharing import Offer, Share, Strategy
from shared.sharing import expand

RESOURCES = ("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/slice")
WHOLE, CUTTABLE, MIGS = "GPU-a", "GPU-b", ("MIG-b0", "MIG-b1")

Form = tuple[str, int, Strategy]
forms = st.tuples(
    st.sampled_from(RESOURCES),
    st.integers(0, 6),
    st.sampled_from([Strategy.TIME_SLICING, Strategy.MPS]),
)


def _share(uuid: str, form: Form) -> Share:
    resource, replicas, strategy = form
    gpu_uuid = uuid if uuid == WHOLE else CUTTABLE
    parts = MIGS if uuid == CUTTABLE else ()
    return Share(
        uuid=uuid,
        gpu_uuid=gpu_uuid,
        gpu_index=0 if uuid == WHOLE else 1,
        resource=resource,
        replicas=replicas,
        strategy=strategy if replicas > 1 else Strategy.NONE,
        parts=parts,
    )


class Slots(RuleBasedStateMachine):
    """Devices with a wanted form each, and who holds what."""

    @initialize()
    def unshared(self) -> None:
        self.shares: tuple[Share, ...] = tuple(
            _share(uuid, (RESOURCES[0], 1, Strategy.NONE)) for uuid in (WHOLE, CUTTABLE)
        )
        self.holders: dict[str, set[str]] = {}
        self.forms: dict[tuple[str, str], Strategy] = {}
        self.peak: dict[str, int] = {}  # holders of a device when its form was last edited

    def offers(self) -> tuple[Offer, ...]:
        return expand.expand(self.shares, self.holders, self.forms)

    def held(self) -> set[tuple[str, str]]:
        return {(name, slot) for name, taken in self.holders.items() for slot in taken}

    def silicon(self, gpu: str) -> list[tuple[str, str]]:
        """What is held on a GPU or inside it."""
        inside = (gpu, *MIGS) if gpu == CUTTABLE else (gpu,)
        return [item for item in self.held() if slots.device_of(item[1]) in inside]

    @rule(first=forms, second=forms, third=forms, cut=st.booleans())
    def edit(self, first: Form, second: Form, third: Form, cut: bool) -> None:
        """A new text: every device may get another name and count, the cuttable GPU another cut."""
        rest = zip(MIGS, (second, third), strict=True) if cut else [(CUTTABLE, second)]
        self.shares = tuple(_share(uuid, form) for uuid, form in [(WHOLE, first), *rest])
        self.peak = {}
        for uuid, taken in self.use().items():
            self.peak[uuid] = taken

    def use(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for _, slot in self.held():
            found[slots.device_of(slot)] = found.get(slots.device_of(slot), 0) + 1
        return found

    def free(self) -> list[tuple[str, str]]:
        listed = [(offer.resource, slot) for offer in self.offers() for slot in offer.slots]
        return [item for item in listed if item not in self.held()]

    @precondition(lambda self: self.free())
    @rule(data=st.data())
    def grant(self, data: st.DataObject) -> None:
        """The kubelet hands out a listed slot, and no list changes by it."""
        before = self.offers()
        resource, slot = data.draw(st.sampled_from(self.free()))
        self.holders.setdefault(resource, set()).add(slot)
        self.forms[resource, slot] = self.strategy_of(resource, slot)
        assert self.offers() == before

    def strategy_of(self, resource: str, slot: str) -> Strategy:
        """How the device is offered under this name now."""
        return next(
            share.strategy
            for share in self.shares
            if (share.uuid, share.resource) == (slots.device_of(slot), resource)
        )

    @precondition(lambda self: self.held())
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        """A pod ends."""
        resource, slot = data.draw(st.sampled_from(sorted(self.held())))
        self.holders[resource].discard(slot)
        del self.forms[resource, slot]

    @invariant()
    def listed_slots_are_held_as_they_are_offered(self) -> None:
        """A container that holds a listed slot shares the device as the next one will."""
        for offer in self.offers():
            for slot in offer.slots:
                if (offer.resource, slot) in self.forms:
                    held_as = self.forms[offer.resource, slot]
                    assert held_as is self.strategy_of(offer.resource, slot)

    @invariant()
    def every_held_slot_is_listed_or_retiring_once(self) -> None:
        """Shrinking, renaming and re-cutting never drop a holder."""
        known = [
            (offer.resource, slot)
            for offer in self.offers()
            for slot in offer.slots + offer.retiring
        ]
        assert len(known) == len(set(known))
        assert self.held() <= set(known)

    @invariant()
    def retiring_slots_have_holders(self) -> None:
        """Nothing lingers once its holder is gone."""
        for offer in self.offers():
            assert {(offer.resource, slot) for slot in offer.retiring} <= self.held()

    @invariant()
    def free_slots_never_stand_beside_another_form(self) -> None:
        """A whole device is free only where nobody holds anything of it, and the reverse."""
        for _, slot in self.free():
            gpu = CUTTABLE if slots.device_of(slot) in MIGS else slots.device_of(slot)
            for _, taken in self.silicon(gpu):
                assert (slots.device_of(taken) in MIGS) is (slots.device_of(slot) in MIGS)
                if slots.device_of(taken) == slots.device_of(slot):
                    assert slots.replica_of(taken) is not None
                    assert slots.replica_of(slot) is not None

    @invariant()
    def use_never_grows_beyond_the_count(self) -> None:
        """In use and free together stay within the replicas, or within what the edit found."""
        in_use = self.use()
        for share in self.shares:
            free = [slot for _, slot in self.free() if slots.device_of(slot) == share.uuid]
            total = in_use.get(share.uuid, 0) + len(free)
            assert total <= max(share.replicas, self.peak.get(share.uuid, 0))

    @invariant()
    def a_device_without_old_holders_offers_all_it_should(self) -> None:
        """Once the old form has drained, exactly the wanted number of slots is listed."""
        for share in self.shares:
            gpu = share.gpu_uuid
            strangers = [
                item
                for item in self.silicon(gpu)
                if slots.device_of(item[1]) not in (set(MIGS) if share.uuid in MIGS else {gpu})
                or (slots.device_of(item[1]) == share.uuid and item[0] != share.resource)
                or (
                    slots.device_of(item[1]) == share.uuid
                    and (slots.replica_of(item[1]) is None) is not (share.replicas == 1)
                )
                or (
                    slots.device_of(item[1]) == share.uuid
                    and self.forms[item] is not share.strategy
                )
            ]
            (offer,) = [
                offer
                for offer in self.offers()
                if (offer.uuid, offer.resource) == (share.uuid, share.resource)
            ]
            if not strangers:
                assert len(offer.slots) == share.replicas

    @invariant()
    def it_is_a_function(self) -> None:
        """Same shares and holders, same offers, in the same order."""
        assert self.offers() == self.offers()


TestSlots = Slots.TestCase
