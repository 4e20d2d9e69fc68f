"""The read path as a state machine: whatever the way does to messages, a node never goes back.

The machine holds a true store and a wire. Messages are lost, late, doubled and reordered, direct
gets lag, stores are lost and made anew, writers learn of that late, and others send answers to our
subject. After every step what is in force must be what the rules of the contract say.
"""

from __future__ import annotations

from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from shared.bus import freshness
from shared.bus.freshness import Mark, Verdict
from shared.contract import codec, table
from shared.contract.messages import Hold, Stamp

HOLD = table.bucket("hold")
NODE, TOKEN = "gpu-a.example", "gpu-a_example"
ANY = st.integers(min_value=0)


@dataclass(frozen=True)
class Sent:
    """A message as it was stored and sent; `mark` is None for what is no value."""

    headers: dict[str, str]
    data: bytes
    mark: Mark | None
    reason: str = ""


class ReadPath(RuleBasedStateMachine):
    """One key of one bucket, one reader."""

    def __init__(self) -> None:
        super().__init__()
        self.reading: freshness.Reading[Hold] = freshness.Reading(HOLD, TOKEN)
        self.store = 1  # of the bucket that stands now
        self.known_store = 1  # that the writer knows of
        self.sequence = 0
        self.count = 0
        self.kept: list[Sent] = []  # what this bucket held, oldest first
        self.wire: list[Sent] = []
        self.best = Mark()
        self.best_reason = ""

    def _stored(self, data: bytes, mark: Mark | None, reason: str = "") -> Sent:
        headers = {
            freshness.STREAM: HOLD.stream,
            freshness.SUBJECT: HOLD.key(TOKEN),
            freshness.SEQUENCE: str(self.sequence),
        }
        return Sent(headers, data, mark, reason)

    def _write(self, data: bytes, mark: Mark | None, reason: str = "") -> None:
        sent = self._stored(data, mark, reason)
        self.kept.append(sent)
        self.wire.append(sent)

    def _offer(self, sent: Sent) -> None:
        verdict = self.reading.offer(sent.headers, sent.data)
        newer = sent.mark is not None and sent.mark > self.best
        told = sent.reason != self.best_reason or sent.mark is None
        value = bool(sent.data)
        assert (verdict is Verdict.EMPTY) == (newer and not value)
        assert (verdict is Verdict.APPLIED) == (newer and value and told)
        assert (verdict is Verdict.RENEWED) == (newer and value and not told)
        if newer and sent.mark is not None:
            self.best, self.best_reason = sent.mark, sent.reason

    @rule()
    def the_writer_writes(self) -> None:
        """A new value is stored and republished."""
        self.sequence += 1
        self.count += 1
        reason = f"value {self.count}"
        value = Hold(stamp=Stamp(node=NODE, writer="w", store=self.known_store), reason=reason)
        self._write(codec.encode(value), Mark(self.known_store, self.sequence), reason)

    @precondition(lambda self: self.kept and self.kept[-1].data and self.kept[-1].mark is not None)
    @rule()
    def the_writer_renews(self) -> None:
        """What stands is stored anew as it is."""
        self.sequence += 1
        last = self.kept[-1]
        store = last.mark.store if last.mark else 0
        self._write(last.data, Mark(store, self.sequence), last.reason)

    @rule()
    def the_node_is_buried(self) -> None:
        """A tombstone is stored, in the store that the controller knows of."""
        self.sequence += 1
        mark = Mark(self.store, self.sequence)
        sent = self._stored(b"", mark)
        sent.headers[table.STORE_HEADER] = str(self.store)
        self.kept.append(sent)
        self.wire.append(sent)

    @rule(data=st.sampled_from([b"", b"no JSON", b"{}", b'{"stamp": {"schema": 9}}']))
    def something_else_is_stored(self, data: bytes) -> None:
        """An empty value that is no tombstone, or what this version cannot read."""
        self.sequence += 1
        self._write(data, None)

    @rule(later=st.integers(min_value=1, max_value=3))
    def the_store_is_lost_and_made_anew(self, later: int) -> None:
        """Sequences begin again; the writer does not know yet."""
        self.store += later
        self.sequence = 1  # `_store` itself
        self.kept = []

    @rule()
    def the_writer_learns_of_the_store(self) -> None:
        """It writes again what should stand."""
        self.known_store = self.store
        self.the_writer_writes()

    @precondition(lambda self: self.wire)
    @rule(which=ANY, double=st.booleans())
    def a_message_arrives(self, which: int, double: bool) -> None:
        """Any that is on its way, in any order, perhaps again later."""
        index = which % len(self.wire)
        self._offer(self.wire[index] if double else self.wire.pop(index))

    @precondition(lambda self: self.wire)
    @rule(which=ANY)
    def a_message_is_lost(self, which: int) -> None:
        """It never arrives."""
        self.wire.pop(which % len(self.wire))

    @precondition(lambda self: self.kept)
    @rule(which=ANY)
    def a_get_lags(self, which: int) -> None:
        """It shows what stood at some time in the bucket that stands now."""
        self._offer(self.kept[which % len(self.kept)])

    @precondition(lambda self: self.kept)
    @rule(
        name=st.sampled_from([freshness.STREAM, freshness.SUBJECT, freshness.SEQUENCE]),
        value=st.sampled_from(["", "KV_ledger", "$KV.hold.gpu-b", "-1", "9e9"]),
        missing=st.booleans(),
    )
    def an_answer_to_somebody_else_arrives(self, name: str, value: str, missing: bool) -> None:
        """A readable value whose headers do not say that it was stored under our key."""
        value_of = Hold(stamp=Stamp(node=NODE, writer="w", store=1 << 62), reason="forged")
        headers = {**self.kept[-1].headers, name: value}
        if missing:
            del headers[name]
        self._offer(Sent(headers, codec.encode(value_of), None))

    @invariant()
    def what_is_in_force_is_the_newest_that_came_in(self) -> None:
        """And so it never goes back."""
        assert self.reading.mark == self.best
        value = self.reading.value
        assert (value.reason if value else "") == self.best_reason

    def teardown(self) -> None:
        """Once the writer knows the store and has written, one get brings the newest."""
        self.the_writer_learns_of_the_store()
        self._offer(self.kept[-1])
        assert self.reading.value is not None
        assert self.reading.value.reason == f"value {self.count}"


TestReadPath = ReadPath.TestCase
