"""Which nodes are looked at, and how many of them change at a time."""

from __future__ import annotations

import dataclasses

import pytest

from services.reconfigurer.controller import fleet, nodes, texts
from services.reconfigurer.controller.attempt import Attempt, Policy
from services.reconfigurer.controller.changes import Changes
from services.reconfigurer.controller.outcome import Going, State
from shared.bus.state import Received
from shared.contract import names
from shared.contract.generation import Generation
from shared.contract.messages import Phase, Progress
from shared.domain.errors import Problem
from tests.support import hardware

NEWEST = Generation(2, 1)
NODES = ("gpu-a", "gpu-b", "gpu-c")


def view(limit: str = "1", *, layout: str = "all-balanced") -> tuple[fleet.Fleet, Changes]:
    """Three nodes that all want a layout and whose agents ask for room."""
    known = fleet.Fleet(
        config_label=names.CONFIG_LABEL, intents={}, config_map=texts.ConfigMap(name="sharing")
    )
    for name in NODES:
        known.nodes[name] = nodes.Node(name=name)
        wanted = hardware.intent(generation=NEWEST, node=name)
        known.intents[name] = dataclasses.replace(wanted, mig_config=layout)
        say(known, name, Phase.PREPARE)
    return known, Changes(known, Policy(max_unavailable=limit))


def say(known: fleet.Fleet, name: str, phase: Phase, order: int = 1, *, reason: str = "") -> None:
    """What a node's agent says."""
    progress = Progress(
        stamp=hardware.stamp(NEWEST, name),
        phase=phase,
        reason=reason,
        sentence=phase,
        order=order,
    )
    known.progress[name] = Received(progress, "", order)


def due(changes: Changes) -> list[str]:
    return list(changes.due(0.0))


def settle(known: fleet.Fleet, changes: Changes, name: str, phase: Phase) -> None:
    """A node's change ends, and its allocatable devices are reported."""
    say(known, name, phase)
    change = changes.of(name, 0.0)
    change.attempt = Attempt(generation=NEWEST)
    changes.outcome(name, 0.0)
    change.differs = ""
    found = changes.outcome(name, 0.0)
    assert found
    known.outcomes[name] = found


def test_nodes_change_one_after_the_other() -> None:
    """The next begins when the first one's new devices have been reported."""
    known, changes = view()
    assert due(changes) == ["gpu-a"]
    changes.of("gpu-a", 0.0).attempt = Attempt(generation=NEWEST, began=0.0)
    assert due(changes) == ["gpu-a"]
    settle(known, changes, "gpu-a", Phase.SUCCESS)
    assert due(changes) == ["gpu-b"]


def test_a_failed_node_keeps_its_place_also_while_it_tries_again() -> None:
    """One bad layout does not go through the fleet, one node after the other."""
    known, changes = view()
    settle(known, changes, "gpu-a", Phase.FAILED)
    assert due(changes) == []
    say(known, "gpu-a", Phase.PREPARE, order=2)
    assert due(changes) == ["gpu-a"]


def test_a_node_that_waits_for_others_says_so() -> None:
    """And not that it is being prepared; once it may, that is what it says."""
    known, changes = view()
    first = changes.outcome("gpu-b", 0.0)
    assert first
    assert first.reason == Going.PREPARING, "nobody has counted yet"
    due(changes)
    waits = changes.outcome("gpu-b", 0.0)
    assert waits
    assert (waits.state, waits.reason) == (State.PENDING, Going.QUEUED)
    assert "mig.maxUnavailable is 1" in waits.sentence
    settle(known, changes, "gpu-a", Phase.SUCCESS)
    due(changes)
    assert changes.outcome("gpu-b", 0.0) == first


def test_a_new_leader_knows_failed_nodes_by_their_labels() -> None:
    """And begun ones by what is on them."""
    known, changes = view()
    known.nodes["gpu-b"] = nodes.Node(
        name="gpu-b",
        labels={names.MIG_STATE_LABEL: State.FAILED},
        annotations={names.MIG_GENERATION_ANNOTATION: str(NEWEST)},
    )
    assert due(changes) == ["gpu-b"]
    known, changes = view()
    known.nodes["gpu-c"] = nodes.Node(
        name="gpu-c", annotations={names.CORDON_ANNOTATION: str(NEWEST)}
    )
    assert due(changes) == ["gpu-c"]


@pytest.mark.parametrize("new_leader", [False, True])
@pytest.mark.parametrize("by", ["the controller", "the agent"])
def test_a_node_whose_layout_is_refused_holds_up_no_other(by: str, new_leader: bool) -> None:
    """A label with a typo, or a default on a board without MIG: nobody is disturbed there."""
    known, changes = view()
    if by == "the agent":
        say(known, "gpu-a", Phase.FAILED, reason=names.MIG_REFUSED)
    else:
        wrong = (Problem(names.MIG_CONFIG_LABEL, 0, 0, "there is no MIG layout typo"),)
        known.intents["gpu-a"] = dataclasses.replace(known.intents["gpu-a"], mig_problems=wrong)
        say(known, "gpu-a", Phase.SUCCESS)
    found = changes.outcome("gpu-a", 0.0)
    assert found
    assert found.state is State.FAILED
    changes.of("gpu-a", 0.0).differs = ""
    if new_leader:
        known.nodes["gpu-a"] = nodes.Node(
            name="gpu-a",
            labels={names.MIG_STATE_LABEL: State.FAILED},
            annotations={names.MIG_GENERATION_ANNOTATION: str(NEWEST)},
        )
    assert due(changes) == ["gpu-b"]


def test_a_layout_that_failed_keeps_its_place_under_a_label_with_a_typo() -> None:
    """It is tried again there all the same, and somebody is evicted for it each time."""
    known, changes = view()
    wrong = (Problem(names.MIG_CONFIG_LABEL, 0, 0, "there is no MIG layout typo"),)
    known.intents["gpu-a"] = dataclasses.replace(known.intents["gpu-a"], mig_problems=wrong)
    settle(known, changes, "gpu-a", Phase.FAILED)
    assert due(changes) == []


@pytest.mark.parametrize("phase", [Phase.HOLDING, Phase.APPLYING])
def test_a_node_that_undoes_a_change_keeps_its_place_until_it_has_ended(phase: Phase) -> None:
    """Its label has gone, and its GPUs are still being cut."""
    known, changes = view()
    known.intents["gpu-a"] = dataclasses.replace(known.intents["gpu-a"], mig_config="")
    say(known, "gpu-a", phase)
    assert "gpu-b" not in due(changes)
    say(known, "gpu-a", Phase.IDLE)
    assert due(changes) == ["gpu-b"]


def test_a_part_of_the_nodes_counts_those_with_a_layout() -> None:
    """67 % of three are two."""
    _, changes = view("67%")
    assert due(changes) == ["gpu-a", "gpu-b"]


def test_nodes_without_a_layout_are_never_looked_at() -> None:
    """Unless something of ours is still on them."""
    known, changes = view(layout="")
    assert due(changes) == []
    known.nodes["gpu-a"] = nodes.Node(
        name="gpu-a", annotations={names.PAUSED_ANNOTATION: '{"nvidia.com/gpu.deploy.dcgm": "x"}'}
    )
    assert due(changes) == ["gpu-a"]


def test_a_success_that_the_labels_tell_is_not_looked_at_again() -> None:
    """A new leader does not read the whole fleet."""
    known, changes = view()
    say(known, "gpu-a", Phase.SUCCESS)
    assert "gpu-a" in due(changes)
    known.nodes["gpu-a"] = nodes.Node(
        name="gpu-a",
        labels={names.MIG_STATE_LABEL: State.SUCCESS},
        annotations={names.MIG_GENERATION_ANNOTATION: str(NEWEST)},
    )
    found = changes.outcome("gpu-a", 0.0)
    assert found
    assert found.state is State.SUCCESS
    assert "gpu-a" not in due(changes)
