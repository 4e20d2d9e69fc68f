"""Each reason of the closed list, as one pod and a few nodes show it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from shared.contract.generation import Generation
from shared.contract.messages import Drain, Phase
from shared.contract.mps import DaemonState, MpsDaemon
from shared.contract.waiting import Request, Waiting
from shared.domain.sharing import MigStrategy, SharingConfig, Strategy
from shared.domain.slots import SlotState
from shared.waiting import verdict
from shared.waiting.reasons import NEAREST, Reason
from tests.unit.waiting import world
from tests.unit.waiting.world import GPU, SHARED, asked, cut, node, pod

SMALL, BIG = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-7g.80gb"
TRACED = "; slicewire trace gpu-a shows the change"


def test_the_order_has_every_reason_once() -> None:
    """What the list says is what the order compares."""
    assert sorted(NEAREST) == sorted(Reason)


def test_a_name_that_is_shared_elsewhere() -> None:
    """U105: nvidia.com/gpu is asked for, nvidia.com/gpu.shared is what there is."""
    found = asked(pod(), node(resource=SHARED, free=8))
    assert found.reason is Reason.NO_SUCH_RESOURCE
    assert found.hint == 'did you mean "nvidia.com/gpu.shared"?'
    assert [(each.node, each.hint) for each in found.nodes] == [
        ("gpu-a", "offers nvidia.com/gpu.shared")
    ]


def test_a_name_that_nobody_has() -> None:
    """A profile that is written wrong is answered with the nearest one."""
    found = asked(pod(resource="nvidia.com/mig-1g.11gb"), cut(("1g.10gb", 0, ""), enabled=True))
    assert found.reason is Reason.NO_SUCH_RESOURCE
    assert found.hint == 'did you mean "nvidia.com/mig-1g.10gb"?'


def test_what_only_retires_is_offered_no_more() -> None:
    """A resource that was renamed has holders, and nobody gets a slot after them."""
    found = asked(pod(), node(retiring=3))
    assert found.reason is Reason.NO_SUCH_RESOURCE
    assert found.hint == "nothing else is offered", "and not the very name that was asked for"
    assert found.nodes[0].hint == "no longer offered; 3 end with their holders"


def test_all_held_names_who_has_them() -> None:
    """A few by name, the others by number."""
    found = asked(pod(), node(held=["ml/a", "ml/b"]), node("gpu-b", held=["x/c", "x/d"]))
    assert found.reason is Reason.ALL_HELD
    assert found.sentence == "pods hold all slots of nvidia.com/gpu: 4 of 4"
    assert found.hint == "held by ml/a, ml/b, x/c and 1 more"


def test_some_are_free_and_more_are_wanted() -> None:
    """What is held is in the way, not what is free."""
    found = asked(pod(4), node(free=2, held=["ml/a", "ml/b"]))
    assert found.reason is Reason.ALL_HELD
    assert found.sentence == "2 of 4 slots of nvidia.com/gpu are free, 4 are wanted"


def test_sick_devices_have_what_is_missing() -> None:
    """Were they well, the pod would run; a node where all is held does not change that."""
    found = asked(pod(), node(unhealthy=4, sick=True), node("gpu-b", held=["ml/a"]))
    assert found.reason is Reason.UNHEALTHY
    assert (
        found.sentence
        == "devices that are not healthy keep back 4 slots of nvidia.com/gpu on gpu-a"
    )
    assert found.hint == "GPU 0 is sick: XID 79"
    assert [each.reason for each in found.nodes] == [Reason.UNHEALTHY, Reason.ALL_HELD]


def test_a_daemon_that_is_down_has_what_is_missing() -> None:
    """The GPU is well, and takes no clients until its MPS daemon lives."""
    view = node(unhealthy=4)
    assert view.inventory is not None
    down = MpsDaemon(gpu_uuid=view.gpus[0].uuid, state=DaemonState.DOWN, reason="it ended")
    view = dataclasses.replace(view, inventory=dataclasses.replace(view.inventory, mps=(down,)))
    found = asked(pod(), view)
    assert found.reason is Reason.UNHEALTHY
    assert found.hint == "the MPS daemon of GPU 0 is down: it ended"


@pytest.mark.parametrize(
    ("sick", "changes", "hint"),
    [
        pytest.param(False, {}, "", id="all is well"),
        pytest.param(True, {}, "GPU 0 is sick: XID 79", id="the GPU is sick"),
        pytest.param(
            False,
            {"state": SlotState.LOST},
            "GPU-gpu-a is gone: delete the pod, what made it makes another",
            id="the device is gone",
        ),
        pytest.param(
            False,
            {"strategy": Strategy.MPS},
            "the MPS daemon of GPU 0 is down: it ended",
            id="the daemon is down",
        ),
    ],
)
def test_a_pod_that_runs_is_told_what_is_wrong_beneath_it(
    sick: bool, changes: dict[str, Any], hint: str
) -> None:
    """Its slots are named all the same; what is wrong with other devices is no matter of it."""
    view = node(held=["ml/a"], sick=sick)
    assert view.inventory is not None
    assert view.ledger is not None
    down = MpsDaemon(gpu_uuid=view.gpus[0].uuid, state=DaemonState.DOWN, reason="it ended")
    other = dataclasses.replace(view.gpus[0], index=1, uuid="GPU-1", health=world.SICK)
    (row,) = view.ledger.rows
    view = dataclasses.replace(
        view,
        inventory=dataclasses.replace(view.inventory, gpus=(*view.gpus, other), mps=(down,)),
        ledger=dataclasses.replace(view.ledger, rows=(dataclasses.replace(row, **changes),)),
    )
    found = verdict.Judge({view.name: view}, Waiting(stamp=world.stamp("c"))).of_key("ml/a")
    assert found
    assert (found.reason, found.hint) == (Reason.RUNNING, hint)
    assert row.slot in found.sentence


def test_more_than_any_node_has() -> None:
    """However long it waits: the largest node says how much would do."""
    found = asked(pod(9), node(held=["ml/a"] * 8), node("gpu-b", free=4))
    assert found.reason is Reason.REQUEST_TOO_LARGE
    assert found.hint == "ask for 8 or less: that is all of the largest node"


def test_more_than_one_where_the_text_refuses_it() -> None:
    """failRequestsGreaterThanOne counts in each container, whatever is free."""
    strict = node(free=8, share={"fail_requests_greater_than_one": True})
    found = asked(pod(2), strict)
    assert found.reason is Reason.REQUEST_TOO_LARGE
    assert "failRequestsGreaterThanOne is true: ask for 1" in found.hint
    assert asked(pod(2, largest=1), strict).reason is Reason.NOT_OURS


def test_free_on_many_nodes_and_enough_on_none() -> None:
    """Slots of two nodes are not one pod's."""
    views = [node(name, free=3, held=["ml/a"]) for name in ("gpu-a", "gpu-b")]
    found = asked(pod(4), *views)
    assert found.reason is Reason.FRAGMENTED
    assert found.sentence == "6 slots of nvidia.com/gpu are free, but no node has 4 of them"


def test_a_large_instance_is_free_and_a_small_one_is_asked_for() -> None:
    """The answer is that of a plan: what stays, what goes, what comes; nobody is evicted."""
    found = asked(pod(resource=SMALL), cut(("3g.40gb", 0, ""), ("3g.40gb", 4, "ml/a")))
    assert found.reason is Reason.FRAGMENTED
    assert found.sentence == f"{SMALL}: there is room on gpu-a, cut into other profiles"
    assert found.hint.startswith("MIG layout 3g.40gb + 1g.10gb on gpu-a GPU 0 would give it: keeps")
    assert "3g.40gb at 4" in found.hint
    assert "destroys idle 3g.40gb at 0, creates 1g.10gb at" in found.hint
    assert found.hint.endswith("evicts nobody")


def test_room_beside_what_is_held_is_proposed_too() -> None:
    """All of the profile are held: that is the reason, and a layout would help."""
    view = cut(("1g.10gb", 0, "ml/a"), ("3g.40gb", 4, ""))
    found = asked(pod(resource=SMALL), view)
    assert found.reason is Reason.ALL_HELD
    assert found.proposal is not None
    assert found.proposal.kept == ("1g.10gb at 0", "3g.40gb at 4")
    assert found.hint.startswith("held by ml/a; MIG layout 3g.40gb + 1g.10gb + 1g.10gb on gpu-a")


def test_no_room_beside_what_is_held() -> None:
    """Seven of seven are held: there is nothing to propose."""
    full = cut(*(("1g.10gb", start, f"ml/{start}") for start in range(7)))
    found = asked(pod(resource=SMALL), full)
    assert found.reason is Reason.ALL_HELD
    assert found.proposal is None


def test_a_card_that_is_not_cut_yet() -> None:
    """A layout of the idle card is proposed, with the mode that it needs."""
    found = asked(pod(resource=SMALL), cut(enabled=False))
    assert found.reason is Reason.NO_SUCH_RESOURCE
    assert "turns MIG mode on, creates 1g.10gb" in found.hint


@pytest.mark.parametrize("phase", [Phase.PREPARE, Phase.HOLDING, Phase.APPLYING, Phase.REBOOTING])
def test_the_layout_that_is_being_made_has_it(phase: Phase) -> None:
    """U107: instances are on their way, so nobody need do anything."""
    view = cut(("3g.40gb", 0, "ml/a"), phase=phase)
    view = dataclasses.replace(view, intent=world.intent("gpu-a", mig_config="all-1g.10gb"))
    found = asked(pod(resource=SMALL), view)
    assert found.reason is Reason.RECONFIGURING
    assert found.hint == f"layout all-1g.10gb: {phase}, it is so" + TRACED


def test_a_change_takes_away_what_its_layout_has_not() -> None:
    """Slots that are withheld for it do not come back."""
    wanted = world.intent("gpu-a", mig_config="all-1g.10gb")
    view = cut(("7g.80gb", 0, "ml/a"), phase=Phase.HOLDING)
    found = asked(pod(resource=BIG), dataclasses.replace(view, intent=wanted))
    assert found.reason is Reason.NO_SUCH_RESOURCE
    hint = "it goes with the change: layout all-1g.10gb: holding, it is so"
    assert [each.hint for each in found.nodes] == [hint]
    whole = node(unhealthy=1, intent=wanted, progress=world.progress("gpu-a", Phase.HOLDING))
    assert asked(pod(), whole).reason is Reason.NO_SUCH_RESOURCE


def test_a_layout_that_is_being_made_without_it() -> None:
    """What comes is something else."""
    view = cut(("7g.80gb", 0, "ml/a"), phase=Phase.HOLDING)
    view = dataclasses.replace(view, intent=world.intent("gpu-a", mig_config="all-3g.40gb"))
    assert asked(pod(resource=SMALL), view).reason is Reason.NO_SUCH_RESOURCE


@pytest.mark.parametrize(
    ("strategy", "layout", "resource", "reason"),
    [
        pytest.param("mixed", "all-disabled", GPU, Reason.RECONFIGURING, id="whole again"),
        pytest.param("single", "all-1g.10gb", GPU, Reason.RECONFIGURING, id="more of one name"),
        pytest.param("single", "all-disabled", GPU, Reason.ALL_HELD, id="no more than there are"),
        pytest.param("single", "all-enabled", GPU, Reason.NO_SUCH_RESOURCE, id="nothing"),
        pytest.param("mixed", "all-7g.80gb", BIG, Reason.ALL_HELD, id="the one that there is"),
        pytest.param("mixed", "all-1g.10gb", SMALL, Reason.RECONFIGURING, id="another profile"),
    ],
)
def test_a_change_brings_what_its_layout_has_more_of(
    strategy: str, layout: str, resource: str, reason: Reason
) -> None:
    """By the strategy that names the devices; what is there already is held by somebody."""
    view = cut(("7g.80gb", 0, "ml/a"), phase=Phase.HOLDING)
    if strategy == "single":
        view = world.renamed(view, GPU)
    sharing = SharingConfig(mig_strategy=MigStrategy(strategy))
    wanted = dataclasses.replace(world.intent("gpu-a", mig_config=layout), sharing=sharing)
    view = dataclasses.replace(view, intent=wanted)
    assert asked(pod(resource=resource), view).reason is reason


@pytest.mark.parametrize(
    ("phase", "older", "said"),
    [
        pytest.param(Phase.IDLE, True, "its agent has yet to take it up", id="not begun"),
        pytest.param(Phase.SUCCESS, False, "done, its kubelet has yet to report it", id="made"),
    ],
)
def test_a_change_has_a_beginning_and_an_end(phase: Phase, older: bool, said: str) -> None:
    """The state of the node says that it goes on, whatever its agent said last."""
    wanted = world.intent("gpu-a", mig_config="all-1g.10gb")
    if older:
        wanted = dataclasses.replace(wanted, stamp=world.stamp("gpu-a", Generation(1, 3)))
    view = cut(("3g.40gb", 0, "ml/a"), phase=phase)
    view = dataclasses.replace(view, intent=wanted, fact=world.fact(changing=True))
    found = asked(pod(resource=SMALL), view)
    assert found.reason is Reason.RECONFIGURING
    assert found.hint == f"layout all-1g.10gb: {said}" + TRACED


def test_slots_that_are_withheld_come_back() -> None:
    """A hold makes slots unhealthy; their devices are not sick."""
    view = node(unhealthy=4, progress=world.progress("gpu-a", Phase.HOLDING))
    assert asked(pod(), view).reason is Reason.RECONFIGURING


def test_the_services_have_yet_to_answer_an_edit() -> None:
    """For a moment the numbers are those of the text before."""
    newer = world.intent("gpu-a")
    newer = dataclasses.replace(newer, stamp=world.stamp("gpu-a", Generation(1, 3)))
    found = asked(pod(), node(held=["ml/a"], intent=newer))
    assert found.reason is Reason.RECONFIGURING
    assert found.hint == "its services have yet to answer generation 1.3" + TRACED


def test_a_node_that_we_have_cordoned() -> None:
    """It has what is asked for and takes no pods for a while."""
    fact = world.fact(cordoned_for="1/2")
    view = node(free=8, fact=fact, progress=world.progress("gpu-a", Phase.HOLDING))
    found = asked(pod(), view, node("gpu-b", held=["ml/a"]))
    assert found.reason is Reason.CORDONED_BY_US
    assert found.hint == "its GPUs: holding, it is so" + TRACED


def test_a_change_that_waits_says_for_what() -> None:
    """What the controller waits for, before what the agent has planned."""
    later = dataclasses.replace(world.intent("gpu-a"), drain=Drain(sentence="others come first"))
    waits = node(unhealthy=8, intent=later, progress=world.progress("gpu-a", Phase.PREPARE))
    assert asked(pod(), waits).hint == "its GPUs: prepare, others come first" + TRACED
    works = dataclasses.replace(waits, progress=world.progress("gpu-a", Phase.APPLYING))
    assert asked(pod(), works).hint == "its GPUs: applying, it is so" + TRACED


def test_slots_that_the_allocator_says_nothing_of() -> None:
    """The advertiser sees devices, nobody serves them."""
    found = asked(pod(), node(free=8, ledger=None))
    assert found.reason is Reason.NOT_REGISTERED
    assert "has not registered" in found.hint


def test_slots_that_the_kubelet_does_not_report() -> None:
    """The ledger has them, the node object does not."""
    found = asked(pod(), node(free=8, fact=world.fact(allocatable=())))
    assert found.reason is Reason.NOT_REGISTERED
    assert found.hint.startswith("the kubelet reports 0 of 8")


def test_slots_that_the_kubelet_has_yet_to_report() -> None:
    """It reports at its own tick; until then some are missing."""
    fact = world.fact(allocatable=((GPU, 4),))
    assert asked(pod(6), node(free=8, fact=fact)).reason is Reason.RECONFIGURING


def test_slots_are_free_and_something_else_is_in_the_way() -> None:
    """What the scheduler says is handed on."""
    fact = world.fact(allocatable=((GPU, 8),), schedulable=False)
    found = asked(pod(scheduler="0/1 nodes are available"), node(free=8, fact=fact))
    assert found.reason is Reason.NOT_OURS
    assert found.hint == ("cordoned, not by slicewire; the scheduler says: 0/1 nodes are available")


def test_what_another_vendor_serves_is_not_ours() -> None:
    """Nor is a pod that asks for no device at all."""
    for waits in (pod(resource="amd.com/gpu"), pod(requests=())):
        found = asked(waits, node(free=8))
        assert found.reason is Reason.NOT_OURS
        assert "which is not slicewire's" in found.sentence


def test_a_pod_that_may_go_to_no_node_with_gpus() -> None:
    """A selector that matches nothing is not a matter of slots."""
    found = asked(pod(), node(free=8), place=())
    assert found.reason is Reason.NOT_OURS
    assert found.hint.startswith("see its nodeSelector and affinity")


def test_only_nodes_that_it_may_go_to_count() -> None:
    """Free slots elsewhere are of no use to it."""
    found = asked(pod(), node(free=8), node("gpu-b", held=["ml/a"]), place=("gpu-b",))
    assert found.reason is Reason.ALL_HELD
    assert [each.node for each in found.nodes] == ["gpu-b"]


def test_a_pod_that_has_its_slot_and_pulls_its_image() -> None:
    """It is past everything that is ours."""
    waits = pod(pod="ml/a", node="gpu-a", reason="ErrImagePull", message="not found")
    found = asked(waits, node(held=["ml/a"]))
    assert found.reason is Reason.NOT_OURS
    assert found.sentence.endswith("on gpu-a, and does not run yet: ErrImagePull: not found")


def test_a_pod_that_is_bound_and_not_admitted() -> None:
    """Only its own node counts from here on."""
    found = asked(pod(node="gpu-a"), node(free=8), node("gpu-b", held=["ml/a"]))
    assert found.reason is Reason.NOT_OURS
    assert found.sentence.startswith("it is bound to gpu-a, whose kubelet has not started it")


def test_of_two_resources_the_one_that_is_not_free_is_told() -> None:
    """That the other one is free keeps no pod away."""
    wanted = world.intent("gpu-a", mig_config="all-1g.10gb")
    view = node(free=8, intent=wanted, progress=world.progress("gpu-a", Phase.HOLDING))
    both = tuple(Request(resource=name, count=1, largest=1) for name in (GPU, SMALL))
    found = asked(dataclasses.replace(pod(), requests=both), view)
    assert (found.reason, found.nodes[0].resource) == (Reason.RECONFIGURING, SMALL)


def test_the_scarcest_of_two_resources_decides() -> None:
    """A pod that asks for two things waits for the one that is not there."""
    both = tuple(Request(resource=name, count=1, largest=1) for name in (GPU, SHARED))
    found = asked(pod(requests=both), node(free=8))
    assert found.reason is Reason.NO_SUCH_RESOURCE
    assert found.nodes[0].resource == SHARED
