"""Events of the ledger, one by one: state in, event, state and facts out."""

from __future__ import annotations

import pytest

from services.allocator import ledger
from services.allocator.ledger import State
from shared.contract.facts import FactKind
from tests.support import slots
from tests.support.slots import GPU, SECOND, holder, listing

A0, A1, B0 = "GPU-a::0", "GPU-a::1", "GPU-b::0"


def played(*events: object, state: State | None = None) -> State:
    """A state after grants (tuples of slots) and Lists (seconds, rows), in order."""
    now = state or State()
    for event in events:
        now = event(now).state  # type: ignore[operator]  # each event takes a state
    return now


def grant(at_s: float, *ids: str, trace: str = ""):  # type: ignore[no-untyped-def]  # a closure
    return lambda state: ledger.allocated(state, GPU, ids, int(at_s * SECOND), trace)


def shown(at_s: float, *rows: tuple[str, list[str]]):  # type: ignore[no-untyped-def]  # a closure
    return lambda state: ledger.listed(state, listing(*rows), int(at_s * SECOND))


def who(state: State, slot: str) -> object:
    found = state.grants.get((GPU, slot))
    return found.holder if found else "nobody"


def test_u039_slots_have_no_name_until_list_gives_one() -> None:
    """U039: of two pods bound together each gets its own slots, and never the other's name."""
    granted = played(grant(1, A0, B0), grant(1, A1))
    assert [who(granted, slot) for slot in (A0, A1, B0)] == [None, None, None]
    after = played(shown(2, ("pod-b", [A0, B0]), ("pod-a", [A1])), state=granted)
    assert [who(after, slot) for slot in (A0, A1, B0)] == [
        holder("pod-b"),
        holder("pod-a"),
        holder("pod-b"),
    ]


def test_u025_two_containers_of_a_pod_are_two_rows() -> None:
    """U025: containers of one pod hold a slot each; both are free when the pod is gone."""
    state = played(grant(1, A0), grant(1, A1), shown(2, ("p/one", [A0]), ("p/two", [A1])))
    assert who(state, A0) == holder("p", "one")
    assert who(state, A1) == holder("p", "two")
    assert not played(shown(10, *()), shown(12, *()), state=state).grants


def test_one_entry_for_each_device_id_is_merged() -> None:
    """List names each id in an entry of its own; the container holds them all."""
    change = ledger.listed(State(), listing(("p", [A0]), ("p", [B0])), SECOND)
    assert {grant.holder for grant in change.state.grants.values()} == {holder("p")}
    assert [fact.sentence for fact in change.facts] == [
        "default/p (container main) holds 2 slots of nvidia.com/gpu"
    ]


def test_an_allocate_supersedes_whoever_had_the_slot() -> None:
    """The kubelet gives away only what is free: the old holder has ended, List or no List."""
    state = played(grant(1, A0), shown(2, ("old", [A0])))
    change = ledger.allocated(state, GPU, [A0], 3 * SECOND, "new-trace")
    assert who(change.state, A0) is None
    assert [(fact.kind, fact.holders) for fact in change.facts] == [
        (FactKind.RELEASED, (holder("old"),)),
        (FactKind.GRANTED, ()),
    ]


def test_a_finished_pod_in_list_does_not_take_the_slot_back() -> None:
    """Before Kubernetes 1.34 List goes on naming finished pods: the newest grant counts."""
    state = played(grant(1, A0), shown(2, ("old", [A0])), grant(3, A0), shown(4, ("old", [A0])))
    assert who(state, A0) is None
    after = played(shown(5, ("old", [A0]), ("new", [A0])), state=state)
    assert who(after, A0) == holder("new")
    assert not after.grants[GPU, A0].rivals


def test_a_pod_that_comes_back_under_its_name_is_known_after_a_while() -> None:
    """A StatefulSet's next pod has the old one's name; List that names it alone is believed."""
    state = played(grant(1, A0), shown(2, ("web-0", [A0])), grant(3, A0), shown(4, ("web-0", [A0])))
    assert who(state, A0) is None
    assert who(played(shown(14, ("web-0", [A0])), state=state), A0) == holder("web-0")


def test_two_running_pods_on_one_slot_are_a_conflict_told_once() -> None:
    """Only one List that names two pods is a conflict, and its sentence says what to do."""
    rows = listing(("one", [A0]), ("two", [A0]))
    change = ledger.listed(State(), rows, SECOND)
    (fact,) = change.facts
    assert fact.kind is FactKind.CONFLICT
    assert fact.holders == (holder("one"), holder("two"))
    assert "delete the pods that have finished" in fact.sentence
    assert who(change.state, A0) is None
    assert not ledger.listed(change.state, rows, 2 * SECOND).facts


def test_containers_of_one_pod_are_no_conflict() -> None:
    """An app container takes over its init container's slot."""
    state = played(shown(1, ("p/init", [A0])), shown(2, ("p/init", [A0]), ("p/main", [A0])))
    assert not state.grants[GPU, A0].rivals
    assert who(played(shown(3, ("p/main", [A0])), state=state), A0) == holder("p", "main")


@pytest.mark.parametrize(
    ("seconds", "stands"),
    [
        pytest.param([2.0], True, id="one List"),
        pytest.param([2.0, 11.9], True, id="two Lists 9.9 s apart"),
        pytest.param([2.0, 12.0], False, id="two Lists 10 s apart"),
    ],
)
def test_a_grant_that_nobody_comes_for_expires(seconds: list[float], stands: bool) -> None:
    """It takes two Lists at least 10 s apart that do not show it."""
    state = played(grant(1, A0), *(shown(at) for at in seconds))
    assert ((GPU, A0) in state.grants) is stands


def test_a_list_asked_before_the_allocate_says_nothing_about_it() -> None:
    """An answer that was under way while the slot was granted cannot show the grant."""
    state = played(grant(5, A0), shown(4, ("other", [A0])))
    assert who(state, A0) is None
    assert state.grants[GPU, A0].missed_ns == 0


def test_one_blank_list_frees_nobody() -> None:
    """A kubelet that has just started may answer before it knows its pods."""
    state = played(grant(1, A0), shown(2, ("p", [A0])), shown(3))
    assert who(state, A0) == holder("p")
    assert ledger.doubtful(state)
    assert not played(shown(5), state=state).grants


def test_an_older_list_changes_nothing() -> None:
    """Lists may come in out of order; only newer ones count."""
    state = played(grant(1, A0), shown(3, ("p", [A0])))
    assert ledger.listed(state, (), 2 * SECOND).state is state


def test_u037_after_every_way_to_end_nothing_is_left() -> None:
    """U037: 100 pods that end somehow leave no row behind, whatever Lists come twice or late."""
    state = State()
    for number in range(100):
        at = 100.0 * number
        name, slot = f"pod-{number}", f"GPU-a::{number % 7}"
        state = played(grant(at + 1, slot), state=state)
        if number % 4:  # every fourth is deleted before any List shows it
            state = played(shown(at + 2, (name, [slot])), state=state)
            state = played(shown(at + 2, (name, [slot])), shown(at + 1), state=state)
        state = played(shown(at + 20), shown(at + 40), shown(at + 60), state=state)
    assert not state.grants
    assert not state.ended


def test_u041_the_first_list_after_a_start_says_what_was_right() -> None:
    """U041: recovered, dropped and unknown grants are counted against what was remembered."""
    before = played(grant(1, A0, A1), shown(2, ("p", [A0]), ("q", [A1])))
    remembered = ledger.restored(before, 10 * SECOND)
    after = played(shown(11, ("p", [A0]), ("r", [B0])), state=remembered)
    assert ledger.rebuilt(remembered, after) == {"recovered": 1, "dropped": 1, "unknown": 1}


def test_a_restart_gives_grants_their_full_time_again() -> None:
    """What was missed before a crash is not held against a grant after it."""
    state = played(grant(1, A0), shown(2))
    again = ledger.restored(state, 60 * SECOND)
    assert (GPU, A0) in played(shown(61), state=again).grants


def test_a_clock_that_went_back_does_not_make_lists_old() -> None:
    """After a start, Lists and grants are measured by the new process's clock."""
    state = played(grant(1000, A0), shown(1001, ("p", [A0])))
    again = ledger.restored(state, 5 * SECOND)
    assert not played(shown(6), shown(8), state=again).grants


def test_one_id_under_two_names_is_two_slots() -> None:
    """After a rename the same id may be held under the old and the new resource."""
    old = ledger.allocated(State(), GPU, [A0], SECOND).state
    both = ledger.allocated(old, f"{GPU}.shared", [A0], 2 * SECOND)
    assert set(both.state.grants) == {(GPU, A0), (f"{GPU}.shared", A0)}
    assert [fact.kind for fact in both.facts] == [FactKind.GRANTED]


def test_facts_name_slots_in_their_order() -> None:
    """Slot 10 comes after slot 2."""
    (fact,) = ledger.allocated(State(), GPU, ["GPU-a::10", "GPU-a::2"], SECOND).facts
    assert fact.slots == ("GPU-a::2", "GPU-a::10")
    assert fact.sentence == "2 slots of nvidia.com/gpu handed out; the pod is not known yet"


def test_ids_that_another_plugin_makes_of_a_uuid_are_names_like_any_other() -> None:
    """List names them as well, and they need not end in a number."""
    ids = ["GPU-a::vgpu-1", "GPU-a::", "GPU-a::0", "GPU-a::²", "GPU-a::" + "9" * 5000]
    state = played(shown(1, ("p", ids)))
    assert set(state.grants) == {(GPU, slot) for slot in ids}
    assert not played(shown(3, ("q", [])), shown(9, ("q", [])), state=state).grants


def test_what_a_slot_was_granted_by_stays_known() -> None:
    """Since-time and trace of the Allocate stay when List names the holder."""
    state = played(grant(1, A0, trace="abc"), shown(2, ("p", [A0])), shown(3, ("p", [A0])))
    assert state.grants[GPU, A0].at_ns == SECOND
    assert state.grants[GPU, A0].trace == "abc"


def test_u093_new_uuids_are_new_slots() -> None:
    """U093: rows on GPUs that are gone stay with their holders and move to no other GPU."""
    state = slots.state_of(slots.inventory(slots.time_sliced(2), slots.named(0, "a")))
    state = played(grant(1, A0), shown(2, ("p", [A0])), state=state)
    seen = slots.inventory(slots.time_sliced(2), slots.named(0, "c"))
    after = ledger.devices(state, seen, confirmed=True).state
    assert set(after.grants) == {(GPU, A0)}
