"""The ledger beside a kubelet that is late, forgets and repeats itself: who holds what is true."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from services.allocator import account, checkpoint, ledger, standing
from services.allocator.grants import Key, Listed
from services.allocator.ledger import State
from shared.contract import codec
from shared.contract.facts import FactKind
from shared.contract.generation import Generation
from shared.contract.messages import Hold, Inventory
from shared.domain import slots as slot_ids
from shared.domain.gpu import Gpu
from shared.domain.slots import Holder, SlotState
from tests.support import hardware, slots

SHARED_NAME = f"{slots.GPU}.shared"
GPUS = (slots.named(0, "a"), slots.named(1, "b"))
FEW = 2  # slots of a GPU at first: the same ones are given away again and again


@dataclass(frozen=True)
class Answer:
    """A List on its way to us: what it shows, when it was asked for."""

    rows: tuple[Listed, ...]
    asked_ns: int


class LedgerMachine(RuleBasedStateMachine):
    """`held` is the truth: what the kubelet has given to which container that still runs.

    `ghosts` are finished containers that List goes on showing; `hidden` ones it never shows.
    """

    answers = Bundle("answers")

    def __init__(self) -> None:
        super().__init__()
        self.state = slots.state_of(slots.inventory(slots.time_sliced(FEW), *GPUS))
        self.now = 1_000 * slots.SECOND
        self.held: dict[Key, Holder] = {}
        self.ghosts: set[tuple[Key, Holder]] = set()
        self.hidden: set[Holder] = set()
        self.pods = 0
        self.newest_ns = 0  # when the newest List taken in was asked for
        self.started_ns = 0  # when this process began: it takes no answers to older questions

    def tick(self, seconds: float = 0.001) -> int:
        self.now += int(seconds * slots.SECOND)
        return self.now

    def offered(self) -> list[Key]:
        """What the kubelet may give away now, by our list and its own account."""
        now_standing = standing.derive(self.state)
        return [
            (resource, slot.id)
            for resource in now_standing.slots
            for slot in now_standing.listed(resource)
            if not slot.trouble and (resource, slot.id) not in self.held
        ]

    def give(self, resource: str, ids: list[str], *, hidden: bool) -> None:
        self.pods += 1
        who = slots.holder(f"pod-{self.pods}")
        if hidden:
            self.hidden.add(who)
        self.state = ledger.allocated(self.state, resource, ids, self.tick(), "trace").state
        self.held |= {(resource, slot): who for slot in ids}

    @precondition(lambda self: self.offered())
    @rule(data=st.data(), number=st.integers(1, 3), hidden=st.booleans())
    def allocate(self, data: st.DataObject, number: int, hidden: bool) -> None:
        """The kubelet gives slots of one resource to a container."""
        resource, slot = data.draw(st.sampled_from(self.offered()))
        others = [it for name, it in self.offered() if name == resource and it != slot]
        self.give(resource, [slot, *others[: number - 1]], hidden=hidden)

    @precondition(lambda self: set(self.held) - self.unseen())
    @rule(data=st.data(), listed_once=st.booleans())
    def give_away_again(self, data: st.DataObject, listed_once: bool) -> None:
        """A listed pod ends, and its slots go to the next pod while List still shows it."""
        key = data.draw(st.sampled_from(sorted(set(self.held) - self.unseen())))
        self.end(self.held[key], stays=True)
        if listed_once:
            self.take(self.ask(1.0))
        if key in self.offered():
            self.give(key[0], [key[1]], hidden=False)

    @precondition(lambda self: self.unseen())
    @rule(data=st.data())
    def answer_late(self, data: st.DataObject) -> None:
        """A List is asked, its pod ends, its slot is given away, and then the answer comes."""
        key = data.draw(st.sampled_from(sorted(self.unseen())))
        answer = self.ask(0.3)
        self.end(self.held[key], stays=False)
        if key in self.offered():
            self.give(key[0], [key[1]], hidden=False)
        self.take(answer)

    def unseen(self) -> set[Key]:
        """What is held by containers that the ledger does not know yet."""
        return {key for key, who in self.held.items() if not self.knows(key, who)}

    def knows(self, key: Key, who: Holder) -> bool:
        return key in self.state.grants and self.state.grants[key].holder == who

    @precondition(lambda self: self.held)
    @rule(data=st.data(), stays=st.booleans())
    def finish(self, data: st.DataObject, stays: bool) -> None:
        """A pod ends; an old kubelet may go on listing it."""
        self.end(data.draw(st.sampled_from(sorted(set(self.held.values())))), stays=stays)

    def end(self, gone: Holder, *, stays: bool) -> None:
        for key in [key for key, who in self.held.items() if who == gone]:
            if stays and self.knows(key, gone):
                self.ghosts.add((key, gone))
            del self.held[key]
        self.hidden.discard(gone)

    @rule()
    def forget_ghosts(self) -> None:
        """Finished pods are deleted."""
        self.ghosts.clear()

    @rule(target=answers, wait=st.sampled_from([0.3, 2.0, 6.0]))
    def ask_ahead(self, wait: float) -> Answer:
        """The kubelet answers a List; when it is taken in is another matter."""
        return self.ask(wait)

    def ask(self, wait: float) -> Answer:
        self.tick(wait)
        shown = [(key, who) for key, who in self.held.items() if who not in self.hidden]
        shown += sorted(self.ghosts)
        # One entry for each device id, as the kubelet writes them.
        rows = tuple(Listed(who, resource, (slot,)) for (resource, slot), who in shown)
        return Answer(rows, self.tick())

    @rule(answer=answers)
    def take(self, answer: Answer) -> None:
        """An answer comes in: the newest, an old one, or one that came before."""
        if answer.asked_ns < self.started_ns:
            return
        change = ledger.listed(self.state, answer.rows, answer.asked_ns)
        if answer.asked_ns <= self.newest_ns:
            assert change.state == self.state
            assert not change.facts
        assert not [fact for fact in change.facts if fact.kind is FactKind.CONFLICT]
        self.state = change.state
        self.newest_ns = max(self.newest_ns, answer.asked_ns)

    @rule()
    def take_the_truth(self) -> None:
        """After an answer that is not late, each slot has exactly the holder that runs."""
        self.take(self.ask(2.0))
        for key, who in self.held.items():
            if who not in self.hidden:
                assert self.state.grants[key].holder == who
                assert not self.state.grants[key].rivals

    @rule()
    def take_a_blank(self) -> None:
        """A kubelet that has just started may answer before it knows its pods."""
        self.take(Answer((), self.tick(1.0)))
        self.whoever_runs_is_in_the_ledger()
        self.take_the_truth()

    @rule(
        replicas=st.integers(1, 3),
        rename=st.sampled_from([None, SHARED_NAME]),
        present=st.sampled_from([GPUS, GPUS[:1], (GPUS[0], slots.sick(GPUS[1]))]),
    )
    def change(self, replicas: int, rename: str | None, present: tuple[Gpu, ...]) -> None:
        """Other sharing, another health, a GPU gone or back."""
        config = slots.time_sliced(replicas, rename=rename if replicas > 1 else None)
        seen = slots.inventory(config, *present)
        self.state = ledger.devices(self.state, seen, confirmed=True).state

    @rule(withheld=st.sampled_from([(), ("GPU-a::0", "GPU-a::1"), ("GPU-b",)]))
    def hold(self, withheld: tuple[str, ...]) -> None:
        """The agent withholds slots, or lets them go."""
        stamp = hardware.stamp(Generation(1, self.pods))
        self.state = ledger.withheld(self.state, Hold(stamp=stamp, slots=withheld), self.now).state

    @rule()
    def crash(self) -> None:
        """A new process reads what the last one wrote before it answered."""
        payload = codec.encode(checkpoint.remember(self.state, noted=0))
        memory = codec.decode(checkpoint.Memory, payload)
        self.state = checkpoint.recall(memory, same_boot=True, now_ns=self.tick())
        self.started_ns, self.newest_ns = self.now, 0

    @rule(wait=st.sampled_from([0.5, 11.0]))
    def forget_all_and_ask(self, wait: float) -> None:
        """Without a file, the first List gives every holder that it shows."""
        answer = self.ask(wait)
        fresh = ledger.devices(State(), self._inventory(), confirmed=True).state
        known = ledger.listed(fresh, answer.rows, answer.asked_ns).state
        for key, who in self.held.items():
            if who not in self.hidden and not any(ghost == key for ghost, _ in self.ghosts):
                assert known.grants[key].holder == who

    def _inventory(self) -> Inventory:
        assert self.state.inventory is not None
        return self.state.inventory

    @invariant()
    def whoever_runs_is_in_the_ledger(self) -> None:
        """What a listed container holds is never free, and is never said to be another's."""
        for key, who in self.held.items():
            if who in self.hidden:
                continue  # its grant expires: to the kubelet's List it does not exist
            assert key in self.state.grants, f"{who} holds {key} and the ledger forgot it"
            assert self.state.grants[key].holder in {None, who}

    @invariant()
    def each_slot_counts_once(self) -> None:
        """Per GPU and resource the states add up to all slots that there are."""
        now_standing = standing.derive(self.state)
        written = account.write(hardware.stamp(), self.state, now_standing)
        everything = [slot for group in now_standing.slots.values() for slot in group.values()]
        for row in written.counts:
            here = [
                slot
                for slot in everything
                if (slot.device.gpu_uuid, slot.resource) == (row.gpu_uuid, row.resource)
            ]
            assert row.counts.total + row.counts.lost == len(here)
        assert sum(row.counts.total + row.counts.lost for row in written.counts) == len(everything)
        keys = [(row.resource, row.slot) for row in written.rows]
        assert len(keys) == len(set(keys)) == len(self.state.grants)

    @invariant()
    def held_slots_stay(self) -> None:
        """A slot that somebody has is listed as it was, retires, or its device is gone."""
        now_standing = standing.derive(self.state)
        for resource, slot_id in self.state.grants:
            slot = now_standing.slots[resource][slot_id]
            assert slot.state not in {SlotState.FREE, SlotState.UNHEALTHY}
            assert slot.listed or slot.trouble

    @invariant()
    def no_gpu_is_offered_whole_and_sliced(self) -> None:
        """What can be handed out now never gives a GPU in two forms."""
        now_standing = standing.derive(self.state)
        forms: dict[str, set[bool]] = {}
        for resource in now_standing.slots:
            for slot in now_standing.listed(resource):
                whole = slot_ids.replica_of(slot.id) is None
                forms.setdefault(slot.device.gpu_uuid, set()).add(whole)
        assert all(len(kinds) == 1 for kinds in forms.values())


TestLedger = LedgerMachine.TestCase
