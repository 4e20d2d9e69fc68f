"""A verdict is total: whatever nodes and pods there are, it is one of the closed list."""

from __future__ import annotations

import dataclasses
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from shared.contract.facts import Fact, FactKind
from shared.contract.messages import Phase
from shared.contract.waiting import NodeFact, Request, Waiting, WaitingPod
from shared.waiting import verdict
from shared.waiting.node import NodeView
from shared.waiting.reasons import Reason
from tests.unit.waiting import world

PODS = ("ml/a", "ml/b", "ml/waits")
NAMES = ("gpu-a", "gpu-b", "gpu-c")
LAYOUTS = (
    (),
    (("3g.40gb", 0), ("3g.40gb", 4)),
    (("7g.80gb", 0),),
    (("1g.10gb", 0), ("2g.20gb", 2), ("3g.40gb", 4)),
    tuple(("1g.10gb", start) for start in range(7)),
)
RESOURCES = st.sampled_from(
    [world.GPU, world.SHARED, "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb", "amd.com/gpu"]
)
PHASES = st.sampled_from(Phase)
SMALL = st.integers(0, 4)
FACTS = st.builds(
    NodeFact,
    name=st.just("x"),
    cordoned_for=st.sampled_from(["", "1/2"]),
    changing=st.booleans(),
    schedulable=st.none() | st.booleans(),
    allocatable=st.none() | st.just(()) | st.just(((world.GPU, 3),)),
)


@st.composite
def shared_nodes(draw: st.DrawFn, name: str) -> NodeView:
    """A node with time-sliced slots in any states."""
    return world.node(
        name,
        free=draw(SMALL),
        held=draw(st.lists(st.sampled_from(PODS), max_size=4)),
        retiring=draw(SMALL),
        unhealthy=draw(SMALL),
        resource=draw(st.sampled_from([world.GPU, world.SHARED])),
        sick=draw(st.booleans()),
        share={"fail_requests_greater_than_one": draw(st.booleans())},
    )


@st.composite
def cut_nodes(draw: st.DrawFn, name: str) -> NodeView:
    """A node whose card is cut in some way, in some phase of a change."""
    layout = draw(st.sampled_from(LAYOUTS))
    held = [(*each, draw(st.sampled_from(["", *PODS]))) for each in layout]
    view = world.cut(*held, name=name, phase=draw(PHASES), enabled=bool(layout))
    wanted = draw(st.sampled_from(["", "all-1g.10gb", "all-balanced", "no-such-layout"]))
    return dataclasses.replace(view, intent=world.intent(name, mig_config=wanted))


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeView:
    """A node of which some things may be unknown."""
    view = draw(shared_nodes(name) | cut_nodes(name))
    silent = draw(st.sets(st.sampled_from(["intent", "inventory", "ledger", "progress"])))
    unknown: dict[str, Any] = dict.fromkeys(silent)
    return dataclasses.replace(view, **unknown, fact=draw(st.none() | FACTS))


FLEETS = st.tuples(*(st.none() | nodes(name) for name in NAMES))
REQUESTS = st.builds(
    Request, resource=RESOURCES, count=st.integers(1, 9), largest=st.integers(1, 9)
)
WAITING = st.builds(
    WaitingPod,
    pod=st.sampled_from(PODS),
    uid=st.just("1"),
    created_ns=st.just(0),
    phase=st.sampled_from(["Pending", "Failed", "Unknown"]),
    requests=st.lists(REQUESTS, max_size=2, unique_by=lambda it: it.resource).map(tuple),
    place=st.integers(-1, 2),
    node=st.sampled_from(["", *NAMES, "gone"]),
    reason=st.sampled_from(["", "UnexpectedAdmissionError", "Evicted"]),
    message=st.sampled_from(["", "no healthy devices present", "slot x is not handed out: y"]),
)


@given(fleet=FLEETS, pod=WAITING)
def test_a_verdict_is_always_one_of_the_list(
    fleet: tuple[NodeView | None, ...], pod: WaitingPod
) -> None:
    """It never raises, has a sentence, and its numbers add up."""
    views = {view.name: view for view in fleet if view is not None}
    waiting = Waiting(stamp=world.stamp("_controller"), places=(tuple(views), ()))
    fact = Fact(
        stamp=world.stamp("gpu-a"),
        id="1",
        kind=FactKind.REGISTERED,
        at_ns=5,
        sentence="",
        resource=world.GPU,
    )
    found = verdict.Judge(views, waiting, [fact]).of_pod(pod)
    assert found.reason in Reason
    assert found.pod == pod.pod
    assert found.sentence
    assert found.reason is not Reason.RUNNING
    for each in found.nodes:
        assert each.total == each.free + each.held + each.unhealthy


@given(fleet=FLEETS, pod=WAITING)
def test_a_proposal_sends_nobody_away(fleet: tuple[NodeView | None, ...], pod: WaitingPod) -> None:
    """Instances that pods hold are all among those that are kept."""
    views = {view.name: view for view in fleet if view is not None}
    waiting = Waiting(stamp=world.stamp("_controller"), places=(tuple(views), ()))
    proposal = verdict.Judge(views, waiting).of_pod(pod).proposal
    if proposal is None:
        return
    view = views[proposal.node]
    held = {row.slot for row in view.rows}
    busy = {
        f"{each.profile} at {each.start}" for each in view.gpus[0].mig_devices if each.uuid in held
    }
    assert busy <= set(proposal.kept)
    assert proposal.created
