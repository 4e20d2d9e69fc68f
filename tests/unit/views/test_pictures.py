"""What `status` draws: at every width, with and without colours, for one node and for hundreds."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from services.views import console as view
from services.views import fleet, fleet_lines, node_lines, troubles
from services.views.fleet import Heard, NodeState
from shared.contract.messages import (
    ConfigState,
    DeviceCounts,
    Intent,
    Inventory,
    Ledger,
    LedgerRow,
    Phase,
    Progress,
    SlotCounts,
    Source,
)
from shared.contract.mps import DaemonState, MpsDaemon
from shared.contract.usage import DeviceUse, Usage
from shared.contract.waiting import Request, StaleTable, Waiting, WaitingPod
from shared.domain.errors import Problem
from shared.domain.gpu import Gpu, Health, HealthState
from shared.domain.sharing import UNSHARED, Share, SourceKind
from shared.domain.slots import Holder, SlotState, slot_id
from tests.support import hardware
from tests.unit.views import blank

GPU = "nvidia.com/gpu"
LOST = Health(state=HealthState.LOST, reason="the GPU has fallen off the bus: " + "reset it " * 20)
SPOKEN = {
    name: Heard(seen="2027-01-15T08:00:00Z", version="0.1.0")
    for name in ("controller", "advertiser", "allocator", "agent")
}
WIDTHS = (40, 60, 80, 120, 200)


def state(name: str, *, gpus: int = 8, replicas: int = 4, **more: Any) -> NodeState:
    """A node whose GPUs have a pod on their first slot."""
    stamp = hardware.stamp(node=name)
    cards = tuple(hardware.gpu(at, f"GPU-{name}-{at}") for at in range(gpus))
    said = NodeState(
        name=name,
        intent=Intent(
            stamp=stamp,
            sharing=UNSHARED,
            source=Source(kind=SourceKind.LABEL, key="a100"),
            state=ConfigState.APPLIED,
        ),
        inventory=Inventory(
            stamp=stamp,
            driver_version="1",
            cuda_version=(13, 0),
            gpus=cards,
            shares=tuple(_share(card, replicas) for card in cards),
        ),
        ledger=Ledger(
            stamp=stamp,
            rows=tuple(_row(card) for card in cards),
            counts=tuple(_counts(card, replicas) for card in cards),
        ),
        progress=Progress(stamp=stamp, phase=Phase.IDLE, sentence="nothing to do"),
        usage=Usage(stamp=stamp, devices=tuple(_use(card) for card in cards)),
        services=SPOKEN,
    )
    return dataclasses.replace(said, **more)


def _share(card: Gpu, replicas: int) -> Share:
    return Share(
        uuid=card.uuid, gpu_uuid=card.uuid, gpu_index=card.index, resource=GPU, replicas=replicas
    )


def _row(card: Gpu) -> LedgerRow:
    return LedgerRow(
        slot=slot_id(card.uuid, 0),
        resource=GPU,
        gpu_uuid=card.uuid,
        state=SlotState.HELD,
        holder=Holder("ml", "a", "main"),
    )


def _counts(card: Gpu, replicas: int) -> DeviceCounts:
    counts = SlotCounts(held=1, free=replicas - 1)
    return DeviceCounts(gpu_uuid=card.uuid, resource=GPU, counts=counts)


def _use(card: Gpu) -> DeviceUse:
    return DeviceUse(
        uuid=card.uuid, gpu_uuid=card.uuid, memory_mib=1000, used_mib=410, sm_percent=80
    )


def sick(name: str) -> NodeState:
    """A node of which the first GPU is lost."""
    found = state(name)
    assert found.inventory is not None
    first, *others = found.inventory.gpus
    gpus = (dataclasses.replace(first, health=LOST), *others)
    return dataclasses.replace(found, inventory=dataclasses.replace(found.inventory, gpus=gpus))


def without_daemon(name: str, daemon: DaemonState) -> NodeState:
    """A node of which the first GPU is shared by MPS and has no daemon to serve it."""
    found = state(name)
    assert found.inventory is not None
    told = MpsDaemon(gpu_uuid=found.inventory.gpus[0].uuid, state=daemon, reason="it ended")
    return dataclasses.replace(found, inventory=dataclasses.replace(found.inventory, mps=(told,)))


def refused(name: str) -> NodeState:
    """A node whose newest text has a long mistake."""
    found = state(name)
    assert found.intent is not None
    problem = Problem("sharing.timeSlicing.resources[0].replicas", 5, 9, "is missing " * 20)
    intent = dataclasses.replace(found.intent, state=ConfigState.REFUSED, problems=(problem,))
    return dataclasses.replace(found, intent=intent)


def changing(name: str) -> NodeState:
    """A node whose GPUs are being cut anew."""
    found = state(name)
    assert found.intent is not None
    assert found.progress is not None
    return dataclasses.replace(
        found,
        intent=dataclasses.replace(found.intent, mig_config="all-balanced"),
        progress=dataclasses.replace(
            found.progress, phase=Phase.APPLYING, step="GPU 0: create 1g.10gb at 0", steps=3
        ),
    )


def drawn(*states: NodeState, **page: Any) -> list[str]:
    """The lines of a fleet."""
    form = fleet.form(states)
    return [line.plain for line in fleet_lines.draw(form, blank.page(**page))]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("marks", [view.MARKS, view.PLAIN_MARKS], ids=["Unicode", "ASCII"])
def test_no_line_is_wider_than_the_terminal(width: int, marks: view.Marks) -> None:
    """Neither of nodes in full nor of a table; a terminal would wrap it into nonsense."""
    few = (sick("gpu-a"), refused("gpu-b"), changing("gpu-c"))
    for states in (few, (*few, *(state(f"well-{at}.example.com") for at in range(9)))):
        lines = drawn(*states, width=width, marks=marks)
        assert max(map(len, lines)) <= width
        assert not any(line != line.rstrip() for line in lines)
    assert marks is view.MARKS or all(line.isascii() for line in lines)


def test_without_a_width_nothing_is_cut_or_wrapped() -> None:
    """What goes into a pipe is for `grep`."""
    lines = drawn(*(refused(f"gpu-{at}") for at in range(30)))
    assert sum("is missing" in line for line in lines) == 30
    assert all("is missing " * 19 in line for line in lines if "is missing" in line)


def test_nodes_with_problems_come_first_then_those_that_change() -> None:
    """500 nodes: what is wrong is seen without scrolling, the rest is counted."""
    well = [state(f"a-{at:03d}") for at in range(497)]
    lines = drawn(*well, changing("x"), sick("y"), refused("z"), width=100)
    at = next(number for number, line in enumerate(lines) if "NODE" in line)
    assert [line.split()[:2] for line in lines[at + 1 : at + 5]] == [
        ["✗", "y"],
        ["✗", "z"],
        ["→", "x"],
        ["✓", "a-000"],
    ]
    assert lines[0] == "500 nodes, 4000 GPUs  2 with problems  1 changing"
    assert lines[-1] == "+ 480 nodes more, nothing is wrong there: status --all"
    assert len(lines) < 30


@pytest.mark.parametrize(("width", "height"), [(60, None), (80, None), (80, 20), (100, 12)])
def test_long_names_leave_room_for_what_is_wrong(width: int, height: int | None) -> None:
    """Clouds name nodes in fifty letters; what is to know then stands below the node's line."""
    names = [f"ip-192-168-100-20{at}.eu-central-1.compute.internal" for at in range(9)]
    lines = drawn(sick(names[0]), *map(state, names[1:]), width=width, height=height)
    at = next(number for number, line in enumerate(lines) if "NODE" in line)
    node, words, well = lines[at + 1 : at + 4]
    assert node.startswith(f"✗ {names[0][:30]}")
    assert node.endswith("8/32   41 %")
    assert words.startswith("  GPU 0 lost: the GPU has fallen off the bus")
    assert well.startswith(f"✓ {names[1][:30]}")
    assert len(lines) <= (height or len(lines))
    assert max(map(len, lines)) <= width


def test_on_a_page_of_some_height_there_are_no_more_lines_than_that() -> None:
    """`--watch` never scrolls; what has no room is counted, also what is wrong."""
    lines = drawn(*(sick(f"gpu-{at:02d}") for at in range(40)), width=100, height=24)
    assert len(lines) <= 24
    assert "of them with something to know" in lines[-1]
    few = drawn(*(state(f"gpu-{at}") for at in range(3)), width=100, height=15)
    assert any("NODE" in line for line in few)
    assert len(few) <= 15


def test_what_is_asked_for_stands_beside_what_there_is() -> None:
    """Requested is what pods have and wait for; a lost GPU's slots are not allocatable."""
    pod = WaitingPod(
        pod="ml/w",
        uid="1",
        created_ns=1,
        phase="Pending",
        requests=(Request(resource=GPU, count=3, largest=3),),
        place=0,
    )
    bound = dataclasses.replace(pod, pod="ml/x", node="gpu-a")
    waiting = Waiting(stamp=hardware.stamp(), pods=(pod, bound))
    form = fleet.form([sick("gpu-a"), state("gpu-b")], waiting)
    (found,) = form["resources"]
    assert (found["requested"], found["waiting"], found["held"]) == (19, 3, 16)
    assert (found["allocatable"], found["free"], form["waiting"]) == (63, 48, 1)
    head, line = fleet_lines.resources(form["resources"], blank.page(width=100))
    heads = ["RESOURCE", "REQUESTED", "ALLOCATABLE", "HELD", "FREE", "MEMORY", "USED"]
    assert head.plain.split() == heads
    assert line.plain.split() == [GPU, "19", "(3", "wait)", "63", "16", "48", "41", "%"]


def test_a_gpu_says_what_is_used_of_it() -> None:
    """Memory and SM, as measured; nothing where nobody has measured."""
    lines = [line.plain for line in node_lines.draw(_node(state("a")), blank.page())]
    assert "memory 41 % used  SM 80 %" in lines[1]
    lines = [line.plain for line in node_lines.draw(_node(state("a", usage=None)), blank.page())]
    assert "used" not in lines[1]


def test_states_are_told_apart_without_colours() -> None:
    """Each state of a slot and each verdict on a node has a sign of its own, also in ASCII."""
    for marks in (view.MARKS, view.PLAIN_MARKS):
        assert len(set(marks.bar.values())) == len(marks.bar)
        assert len({view.verdict(marks, rank)[0] for rank in range(3)}) == 3


@pytest.mark.parametrize("daemon", DaemonState)
def test_a_daemon_of_mps_that_serves_nobody_is_seen(daemon: DaemonState) -> None:
    """One that is down is a problem of the node, one that starts is not."""
    found = without_daemon("a", daemon)
    lines = drawn(found, width=100)
    shown = any(f"MPS daemon {daemon}: it ended" in line for line in lines)
    assert shown is (daemon is not DaemonState.READY)
    told = [each.words for each in troubles.of(_node(found), blank.NOW_NS)]
    down = ["GPU 0: MPS daemon down: it ended"]
    assert told == (down if daemon is DaemonState.DOWN else [])


def test_u035_a_kubelet_that_refuses_what_is_free_is_a_problem_of_its_node() -> None:
    """In the words of `why`, with what to do; also in the form, which is made anew for it."""
    table = StaleTable(node="a", resource="nvidia.com/gpu", devices=2)
    well, forms = state("a"), fleet.Forms()
    assert forms.of([well])["nodes"][0]["stale"] == []
    found = dataclasses.replace(well, stale=(table,))
    (node,) = forms.of([found])["nodes"]
    sentence = "kubelet's table is stale: 2 devices held by unknown pods"
    hint = "restart the kubelet on a"
    assert node["stale"] == [
        {"resource": "nvidia.com/gpu", "devices": 2, "sentence": sentence, "hint": hint}
    ]
    (trouble,) = troubles.of(node, blank.NOW_NS)
    assert (trouble.bad, trouble.words) == (True, f"{sentence} (nvidia.com/gpu): {hint}")
    assert f"  ✗ {sentence}  nvidia.com/gpu  {hint}" in drawn(found, width=120)


def test_a_service_that_never_spoke_is_a_problem() -> None:
    """A node of which only the inventory is known is not well."""
    only = state("a", services={"advertiser": SPOKEN["advertiser"]})
    found = troubles.of(_node(only), blank.NOW_NS)
    assert [each.words for each in found] == ["nothing heard from its allocator, agent"]


def test_a_service_that_has_been_silent_is_a_problem() -> None:
    """Everybody who lives is heard each minute: what the others said is as old as they say."""
    old = {**SPOKEN, "advertiser": Heard(seen="2027-01-15T07:00:00Z", version="0.1.0")}
    found = state("a", services=old)
    told = [each.words for each in troubles.of(_node(found), blank.NOW_NS)]
    assert told == ["advertiser silent for 62 min"]
    assert "1 with problems" in drawn(found)[0]
    assert any("✗ advertiser silent for 62 min: what is shown" in line for line in drawn(found))
    assert not any("silent" in line for line in drawn(state("b")))


@pytest.mark.parametrize(("seen", "told"), [("T07:00:00Z", True), ("T08:01:00Z", False)])
def test_a_controller_that_has_been_silent_is_told_once(seen: str, told: bool) -> None:
    """It is no node's problem, and what is resolved and waits is as old for all of them."""
    form = fleet.form([state(f"n{at}") for at in range(9)])
    form["controller"] = {"seen": f"2027-01-15{seen}", "version": "0.1.0"}
    lines = [line.plain for line in fleet_lines.draw(form, blank.page(width=120))]
    said = [line for line in lines if "controller silent for 62 min" in line]
    assert len(said) == told


def test_a_node_whose_services_are_heard_again_is_made_anew() -> None:
    """Else `--watch` would call silent who lives."""
    forms, first = fleet.Forms(), state("a")
    forms.of([first])
    later = {**SPOKEN, "agent": Heard(seen="2027-01-15T08:01:00Z", version="0.1.0")}
    (again,) = forms.of([dataclasses.replace(first, services=later)])["nodes"]
    assert again["services"]["agent"]["seen"] == "2027-01-15T08:01:00Z"


def test_what_nobody_has_said_anew_is_not_made_anew() -> None:
    """`--watch` of hundreds of nodes costs what has changed."""
    forms, first, second = fleet.Forms(), state("a"), state("b")
    before = forms.of([first, second])["nodes"]
    again = dataclasses.replace(first)
    after = forms.of([again, dataclasses.replace(second, usage=None)])["nodes"]
    assert after[0] is before[0]
    assert after[1] is not before[1]
    assert [each["name"] for each in forms.of([second])["nodes"]] == ["b"]


def _node(said: NodeState) -> dict[str, Any]:
    (node,) = fleet.form([said])["nodes"]
    return dict(node)
