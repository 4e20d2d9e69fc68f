"""What the controller measures: nodes by state, how long changes take, what was refused."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import threading
from collections.abc import Iterator

import pytest

from services.reconfigurer.controller import durations, fleet, measures, nodes, outcome, texts
from services.reconfigurer.controller.durations import Kind, Pending
from services.reconfigurer.controller.outcome import Outcome, State
from shared.contract.generation import Generation
from shared.contract.messages import ConfigState, Intent, Inventory, Ledger
from shared.domain.errors import Problem
from shared.telemetry import catalogue
from tests.support import hardware, measured, slots

S = 10**9
NOW = 1_800_000_000 * S
OLD, NEW = Generation(2, 5), Generation(2, 6)
PROBLEM = Problem("sharing.timeSlicing.resources[0].replicas", 4, 7, "it is too many")


def wanted(generation: Generation = NEW, replicas: int = 4, mig: str = "") -> Intent:
    made = hardware.intent(hardware.time_sliced(replicas), generation)
    return dataclasses.replace(made, mig_config=mig)


WANTED = wanted()


def inventory(generation: Generation = NEW, *problems: Problem) -> Inventory:
    seen = slots.inventory(hardware.time_sliced(4), hardware.gpu(0))
    return dataclasses.replace(seen, stamp=hardware.stamp(generation), problems=problems)


def ledger(generation: Generation = NEW) -> Ledger:
    return Ledger(stamp=hardware.stamp(generation), rows=(), counts=())


def said(state: State, generation: Generation = NEW) -> Outcome:
    return Outcome(state=state, reason="R", sentence="so it is", generation=generation)


def view(**values: dict[str, object]) -> fleet.Fleet:
    """A fleet of one node that wants generation 2.6 and has answered it."""
    made = fleet.Fleet(config_label="l", intents={}, config_map=texts.ConfigMap(name="sharing"))
    made.nodes["node-a"] = nodes.Node(name="node-a")
    made.intents["node-a"] = wanted()
    made.inventories["node-a"] = inventory()
    for name, given in values.items():
        getattr(made, name).clear()
        getattr(made, name).update(given)
    return made


def counted(of: fleet.Fleet) -> dict[str, float]:
    """Nodes by state."""
    return {
        each.labels["state"]: each.value
        for each in measures.samples(of, NOW)
        if each.instrument is catalogue.NODES
    }


@pytest.mark.parametrize(
    ("of", "state"),
    [
        (view(), "ready"),
        (view(inventories={}), "silent"),
        (view(heard={"node-a": NOW - 200 * S}), "silent"),
        (view(heard={"node-a": NOW - 100 * S}), "ready"),
        (view(inventories={"node-a": inventory(OLD)}), "changing"),
        (view(outcomes={"node-a": said(State.PENDING)}), "changing"),
        (view(outcomes={"node-a": said(State.REBOOTING)}), "changing"),
        (view(outcomes={"node-a": said(State.SUCCESS)}), "ready"),
        (view(outcomes={"node-a": said(State.FAILED)}), "failed"),
        (view(inventories={}, outcomes={"node-a": said(State.FAILED)}), "failed"),
    ],
    ids=[
        "answered",
        "no inventory",
        "not heard",
        "heard",
        "old inventory",
        "cut",
        "reboots",
        "cut well",
        "failed",
        "failed, away",
    ],
)
def test_a_node_counts_once_by_the_first_state_that_is_true(of: fleet.Fleet, state: str) -> None:
    assert counted(of) == {"failed": 0, "silent": 0, "changing": 0, "ready": 0, state: 1}


def test_a_node_that_has_gone_from_the_cluster_is_not_counted() -> None:
    assert sum(counted(view(nodes={})).values()) == 0


@pytest.mark.parametrize(
    ("intent", "seen", "is_refused"),
    [
        (wanted(), inventory(), False),
        (dataclasses.replace(wanted(), problems=(PROBLEM,)), inventory(), True),
        (wanted(), inventory(NEW, PROBLEM), True),
        (wanted(), inventory(OLD, PROBLEM), False),
        (wanted(), None, False),
    ],
    ids=["good", "bad text", "does not fit", "did not fit before", "nothing heard"],
)
def test_a_refused_text_is_named_with_its_node(
    intent: Intent, seen: Inventory | None, is_refused: bool
) -> None:
    of = view(intents={"node-a": intent}, inventories={"node-a": seen} if seen else {})
    named = [
        each.labels["node"]
        for each in measures.samples(of, NOW)
        if each.instrument is catalogue.CONFIG_REFUSED
    ]
    assert named == (["node-a"] if is_refused else [])


@pytest.mark.parametrize(
    ("former", "newer", "kind"),
    [
        (wanted(OLD, 2), wanted(NEW, 4), Kind.SHARING),
        (wanted(OLD, 4), wanted(NEW, 4), None),
        (wanted(OLD), wanted(NEW, mig="all-1g.10gb"), Kind.MIG),
        (wanted(OLD, 2, "all-1g.10gb"), wanted(NEW, 4, "all-1g.10gb"), Kind.SHARING),
        (wanted(OLD, mig="all-1g.10gb"), wanted(NEW), None),
        (None, wanted(), Kind.SHARING),
        (wanted(OLD), dataclasses.replace(wanted(NEW, 9), state=ConfigState.REFUSED), None),
        (
            wanted(OLD),
            dataclasses.replace(wanted(NEW, mig="odd"), mig_problems=(PROBLEM,)),
            None,
        ),
    ],
    ids=[
        "replicas",
        "same",
        "layout",
        "replicas, layout as before",
        "no layout any more",
        "first",
        "refused",
        "layout refused",
    ],
)
def test_what_kind_of_change_a_new_intent_begins(
    former: Intent | None, newer: Intent, kind: Kind | None
) -> None:
    begun = durations.after(None, former, newer, 7)
    assert (begun and begun.kind) == kind


def test_a_layout_that_is_being_made_goes_on_under_a_newer_sharing() -> None:
    """It is timed from its own event, and ends with the newer generation."""
    before = Pending(Kind.MIG, 7, wanted(OLD, 2, "all-1g.10gb"))
    newer = wanted(NEW, 4, "all-1g.10gb")
    assert durations.after(before, before.wanted, newer, 9) == Pending(Kind.MIG, 7, newer)


@pytest.mark.parametrize(
    ("seen", "written", "end"),
    [
        (inventory(OLD), ledger(OLD), ""),
        (inventory(), ledger(OLD), ""),
        (inventory(), ledger(), "success"),
        (inventory(NEW, PROBLEM), ledger(), "failed"),
        (None, None, ""),
    ],
)
def test_a_change_of_sharing_ends_with_the_ledger(
    seen: Inventory | None, written: Ledger | None, end: str
) -> None:
    assert durations.sharing_end(wanted(), seen, written) == end


@pytest.mark.parametrize(
    ("found", "end"),
    [
        (None, ""),
        (said(State.PENDING), ""),
        (said(State.SUCCESS, OLD), ""),
        (said(State.SUCCESS), "success"),
        (said(State.FAILED), "failed"),
    ],
)
def test_a_change_of_layout_ends_when_the_kubelet_reports_it_or_it_has_failed(
    found: Outcome | None, end: str
) -> None:
    """`outcome` says success only then."""
    assert durations.mig_end(wanted(mig="all-1g.10gb"), found) == end


def test_a_change_is_timed_once_from_its_event() -> None:
    of, told = view(), measured.Remembering()
    timing = durations.Durations(of, told, now_ns=lambda: 4_500_000_000)
    timing.begun("node-a", wanted(OLD, 2), wanted(), 2_000_000_000)
    of.ledgers["node-a"] = ledger()
    for _ in range(2):
        timing.look("node-a")
    name = catalogue.RECONFIGURATION_DURATION.exposed
    assert told.times == {(name, (("kind", "sharing"), ("outcome", "success"))): [2.5]}


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads that take turns as often as they can, not each 5 ms."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("restless")
async def test_a_scrape_may_come_while_nodes_come_and_go() -> None:
    """It reads the fleet in another thread, of which the loop knows nothing."""
    of, ended = view(), threading.Event()

    def scrape() -> None:
        while not ended.is_set():
            assert sum(1 for _ in measures.samples(of, NOW)) >= 4

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(asyncio.to_thread(scrape))
        for number in range(50_000):  # so many changes, and as many scrapes as find the time
            name = f"node-{number % 997}"
            of.nodes[name], of.intents[name] = nodes.Node(name=name), WANTED
            of.nodes.pop(f"node-{number % 31}", None)
            of.intents.pop(f"node-{number % 37}", None)
            if number % 50 == 0:
                await asyncio.sleep(0)
        ended.set()


def test_outcomes_have_the_states_that_are_counted() -> None:
    """A new state of the label has to be counted somewhere."""
    assert {State.FAILED, State.SUCCESS, *measures.UNDER_WAY} == set(outcome.State)
