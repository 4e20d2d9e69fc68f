"""The write path as a state machine: the newest wanted value ends up standing.

The machine holds a true bucket. Writes are stored, refused or lost, acknowledgements are lost or
late, others write, stores vanish. When all is quiet, doing what is due makes wanted and standing
equal, and then nothing is due.
"""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from shared.bus.upkeep import Upkeep
from shared.contract import codec, table
from shared.contract.messages import Hold, Stamp

HOLD = table.bucket("hold")
TOKENS = st.sampled_from(["gpu-a_example", "gpu-b"])
ANY = st.integers(min_value=0)


class WritePath(RuleBasedStateMachine):
    """Two keys of one bucket, one writer."""

    def __init__(self) -> None:
        super().__init__()
        self.upkeep = Upkeep(HOLD)
        self.wanted: dict[str, str] = {}
        self.store = 10
        self.sequence = 1
        self.stands: dict[str, tuple[int, bytes]] = {}
        self.unheard: list[tuple[str, int, bytes]] = []
        self.newest_seen: dict[str, tuple[int, bytes]] = {}  # in the store that the writer knows
        self.count = 0

    def _see(self, token: str, sequence: int, data: bytes) -> None:
        self.upkeep.see(token, sequence, data)
        if token in self.wanted and sequence >= self.newest_seen.get(token, (0, b""))[0]:
            self.newest_seen[token] = (sequence, data)

    def _put(self, token: str) -> tuple[int, bytes]:
        outgoing = self.upkeep.outgoing(token)
        assert outgoing.subject == HOLD.key(token)
        self.sequence += 1
        self.stands[token] = (self.sequence, outgoing.data)
        self.unheard.append((token, self.sequence, outgoing.data))
        return self.stands[token]

    @rule(token=TOKENS, same=st.booleans())
    def a_value_is_wanted(self, token: str, same: bool) -> None:
        """The service puts, perhaps what it put before."""
        self.count += not same
        self.wanted[token] = f"value {self.count}"
        stamp = Stamp(node=table.node_of_token(token), writer="w")
        self.upkeep.want(token, Hold(stamp=stamp, reason=self.wanted[token]), "")

    @precondition(lambda self: self.wanted)
    @rule(token=TOKENS)
    def a_key_is_forgotten(self, token: str) -> None:
        """Its node has gone: what stands there is nobody's business any more."""
        self.wanted.pop(token, None)
        self.newest_seen.pop(token, None)
        self.upkeep.forget(token)

    @rule()
    def the_store_is_looked_at(self) -> None:
        """`_store` is got or heard."""
        if self.store > self.upkeep.store:
            self.newest_seen.clear()
        self.upkeep.learn_store(self.store)

    @precondition(lambda self: self.upkeep.due())
    @rule(which=ANY, acknowledged=st.booleans())
    def a_due_value_is_put(self, which: int, acknowledged: bool) -> None:
        """It is stored; the acknowledgement may be lost."""
        due = self.upkeep.due()
        token = due[which % len(due)]
        sequence, data = self._put(token)
        if acknowledged:
            self._see(token, sequence, data)

    @rule(token=TOKENS)
    def what_stands_is_renewed(self, token: str) -> None:
        """It is due, as if nothing stood, until it is stored once more."""
        self.upkeep.renew(token)
        if token in self.newest_seen:
            self.newest_seen[token] = (self.newest_seen[token][0], b"")

    @rule(token=TOKENS)
    def somebody_else_writes(self, token: str) -> None:
        """Another value stands under a key of ours."""
        self.sequence += 1
        self.stands[token] = (self.sequence, b"theirs")
        self.unheard.append((token, self.sequence, b"theirs"))

    @precondition(lambda self: self.unheard)
    @rule(which=ANY)
    def a_stored_value_is_heard(self, which: int) -> None:
        """In any order; what is never chosen is lost."""
        self._see(*self.unheard.pop(which % len(self.unheard)))

    @rule()
    def the_store_vanishes(self) -> None:
        """And is made anew, empty; what was on its way is gone."""
        self.store += 1
        self.sequence = 1
        self.stands.clear()
        self.unheard.clear()

    @invariant()
    def what_is_due_is_what_does_not_stand_as_far_as_was_seen(self) -> None:
        """The newest that was seen counts; nothing is due before a store is known."""
        due = {
            token
            for token in self.wanted
            if self.newest_seen.get(token, (0, b""))[1] != self.upkeep.outgoing(token).data
        }
        assert set(self.upkeep.due()) == (due if self.upkeep.store else set())

    def teardown(self) -> None:
        """A look at everything and one round of writing, and the wanted values stand."""
        self.upkeep.learn_store(self.store)
        for token in self.wanted:
            if token in self.stands:
                self.upkeep.see(token, *self.stands[token])
            else:
                self.upkeep.see_nothing(token)
        for token in self.upkeep.due():
            self.upkeep.see(token, *self._put(token))
        assert self.upkeep.due() == ()
        for token, reason in self.wanted.items():
            value = codec.decode(Hold, self.stands[token][1])
            assert (value.reason, value.stamp.store) == (reason, self.store)


TestWritePath = WritePath.TestCase
