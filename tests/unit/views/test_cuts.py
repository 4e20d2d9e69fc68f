"""`status` about MIG: layouts over slices, who is on them, and where a change stands."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from services.views import cuts, fleet, node_lines, troubles
from services.views.fleet import NodeState
from shared.contract.generation import Generation
from shared.contract.messages import (
    ConfigState,
    DeviceCounts,
    Drain,
    Intent,
    Inventory,
    Ledger,
    LedgerRow,
    Phase,
    Progress,
    SlotCounts,
    Source,
    Stamp,
    WaitedFor,
)
from shared.domain.errors import Problem
from shared.domain.gpu import Gpu, Health, HealthState, MigDevice, MigMode
from shared.domain.sharing import UNSHARED, Share, SourceKind
from shared.domain.slots import Holder, SlotState
from tests.support.hardware import gpu, mig_gpu
from tests.unit.views import blank

STAMP = Stamp(node="gpu-a", writer="x/0.1.0/1", generation=Generation(1, 2))
HOLDER = Holder("ml", "a", "main")
START_NS = 1_800_000_000_000_000_000
LATER_NS = START_NS + 60 * 1_000_000_000
START, LATER = "2027-01-15T08:00:00.000000Z", "2027-01-15T08:01:00.000000Z"
DRAIN = Drain(
    sentence="w",
    pods=(WaitedFor("ml/b", "is ending", LATER_NS),),
    since_ns=START_NS,
    until_ns=START_NS + 300 * 1_000_000_000,
)
SICK = Health(state=HealthState.SICK, reason="XID 94")
SPOKEN = {name: {"seen": None} for name in ("advertiser", "allocator", "agent")}
INTENT = Intent(
    stamp=STAMP,
    sharing=UNSHARED,
    source=Source(kind=SourceKind.NONE),
    state=ConfigState.UNSHARED,
    mig_config="all-balanced",
)


def device(profile: str, start: int, size: int, memory_mib: int) -> MigDevice:
    """An instance."""
    (made,) = mig_gpu(0, 1).mig_devices
    return dataclasses.replace(
        made,
        uuid=f"MIG-{start}",
        profile=profile,
        start=start,
        size=size,
        memory_mib=memory_mib,
    )


def share(uuid: str, resource: str, replicas: int) -> Share:
    """What a device offers."""
    return Share(uuid=uuid, gpu_uuid="GPU-0", gpu_index=0, resource=resource, replicas=replicas)


def cut(memory_mib: int, *devices: MigDevice) -> Gpu:
    """A GPU with these instances."""
    whole = dataclasses.replace(gpu(0), memory_mib=memory_mib)
    mode = MigMode(current=True, pending=True)
    return dataclasses.replace(whole, mig_mode=mode, mig_devices=devices)


BALANCED = cut(
    81920,
    device("1g.10gb", 0, 1, 9728),
    dataclasses.replace(device("2g.20gb", 2, 2, 19968), health=SICK),
    device("3g.40gb", 4, 4, 40192),
)


def form(gpus: tuple[Gpu, ...], shares: tuple[Share, ...] = (), **more: Any) -> dict[str, Any]:
    """The form of one node."""
    inventory = Inventory(
        stamp=STAMP, driver_version="1", cuda_version=(13, 0), gpus=gpus, shares=shares
    )
    state = NodeState(name="gpu-a", inventory=inventory, services={}, **more)
    (node,) = fleet.form([state])["nodes"]
    return dict(node)


def counted(resource: str, **states: int) -> DeviceCounts:
    """How many slots of the GPU are in which state."""
    return DeviceCounts(gpu_uuid="GPU-0", resource=resource, counts=SlotCounts(**states))


def written(gpus: tuple[Gpu, ...], **more: Any) -> list[str]:
    """What people read."""
    return [line.plain for line in node_lines.draw(form(gpus, **more), blank.page())]


@pytest.mark.parametrize(
    ("memory_mib", "devices", "slices"),
    [
        pytest.param(81920, (device("1g.10gb", 6, 1, 9728),), 8, id="A100 80 GB"),
        pytest.param(40960, (device("3g.20gb", 4, 4, 20096),), 8, id="A100 40 GB"),
        pytest.param(24576, (device("1g.6gb", 0, 1, 5952),), 4, id="A30"),
        pytest.param(97887, (device("1g.24gb", 0, 3, 24192),), 12, id="RTX PRO 6000"),
        pytest.param(81920, (device("7g.80gb", 0, 8, 80128),), 8, id="one for all"),
        pytest.param(1000, (device("1g.5gb", 7, 1, 0),), 8, id="of unknown size"),
        pytest.param(81920, (), 0, id="no instance"),
    ],
)
def test_a_gpu_is_as_wide_as_its_instances_show(
    memory_mib: int, devices: tuple[MigDevice, ...], slices: int
) -> None:
    """Nothing but what NVML says of them is needed."""
    assert cuts.slices(cut(memory_mib, *devices)) == slices


def test_the_form_of_an_instance_says_where_it_stands_and_who_is_on_it() -> None:
    """Programs get what people see."""
    row = LedgerRow(
        slot="MIG-0::1",
        resource="nvidia.com/mig-1g.10gb",
        gpu_uuid="GPU-0",
        state=SlotState.HELD,
        holder=HOLDER,
    )
    grant = dataclasses.replace(row, slot="MIG-4::0", state=SlotState.GRANTED, holder=None)
    shares = tuple(
        share(f"MIG-{start}", f"nvidia.com/mig-{profile}", replicas=2)
        for start, profile in ((0, "1g.10gb"), (4, "3g.40gb"))
    )
    counts = (
        counted("nvidia.com/mig-1g.10gb", held=1, free=1),
        counted("nvidia.com/mig-3g.40gb", granted=1, free=1),
    )
    ledger = Ledger(stamp=STAMP, rows=(row, grant), counts=counts)
    (found,) = form((BALANCED,), shares=shares, ledger=ledger)["gpus"]
    assert (found["mig"], found["migPending"], found["slices"]) == (True, False, 8)
    first, second, third = found["instances"]
    assert first == {
        "uuid": "MIG-0",
        "profile": "1g.10gb",
        "start": 0,
        "size": 1,
        "health": "healthy",
        "reason": "",
        "slots": {"free": 1, "held": 1},
        "used": None,
        "pods": ["ml/a"],
    }
    assert (second["health"], second["reason"]) == ("sick", "XID 94")
    assert (third["pods"], third["slots"]) == ([], {"free": 1, "granted": 1})


@pytest.mark.parametrize(
    ("states", "asked", "slots"),
    [
        pytest.param({"unhealthy": 3}, "MIG-0::0", ({"unhealthy": 2}, {"unhealthy": 1}), id="all"),
        pytest.param({"free": 3}, "", ({"free": 2}, {"free": 1}), id="none"),
        pytest.param(
            {"unhealthy": 1, "free": 2}, "MIG-1::1", ({"free": 2}, {"unhealthy": 1}), id="kept"
        ),
        pytest.param({"unhealthy": 2, "free": 1}, "", ({"unhealthy": 2}, {"free": 1}), id="sick"),
        pytest.param({}, "", ({}, {}), id="offered no more than a former form allows"),
    ],
)
def test_slots_of_instances_are_together_what_the_gpu_counts(
    states: dict[str, int], asked: str, slots: tuple[dict[str, int], ...]
) -> None:
    """What is withheld for a change, or sick, is nowhere called free."""
    first, second = mig_gpu(0, 2).mig_devices
    if "unhealthy" in states and not asked:
        first = dataclasses.replace(first, health=SICK)
    first, second = (
        dataclasses.replace(each, uuid=f"MIG-{at}") for at, each in enumerate((first, second))
    )
    row = LedgerRow(
        slot="MIG-1::0",
        resource="nvidia.com/mig-1g.10gb",
        gpu_uuid="GPU-0",
        state=SlotState.HELD,
        holder=HOLDER,
    )
    counts = (counted("nvidia.com/mig-1g.10gb", held=1, **states),)
    found = form(
        (dataclasses.replace(gpu(0), mig_devices=(first, second)),),
        shares=tuple(share(f"MIG-{at}", "nvidia.com/mig-1g.10gb", replicas=2) for at in range(2)),
        ledger=Ledger(stamp=STAMP, rows=(row,), counts=counts),
        progress=Progress(stamp=STAMP, phase=Phase.HOLDING, sentence="w", slots=(asked,)),
    )["gpus"][0]["instances"]
    assert [each["slots"] for each in found] == [slots[0], slots[1] | {"held": 1}]


def test_a_gpu_that_cannot_do_mig_has_no_mode() -> None:
    """Neither on nor off."""
    plain = dataclasses.replace(gpu(0), mig_mode=None)
    (found,) = form((plain,))["gpus"]
    assert (found["mig"], found["slices"], found["instances"]) == (None, 0, [])


def test_people_see_instances_over_slices_and_which_is_sick() -> None:
    """What is free is dots; what is pending or empty is said."""
    lines = written((BALANCED,))
    assert (
        "         [1g.10gb].........[   ☒ 2g.20gb    ][             3g.40gb              ]" in lines
    )
    assert "         ✗ 2g.20gb at 2 sick: XID 94  MIG-2" in lines
    assert "         MIG on, no instance" in written((cut(81920),))
    pending = dataclasses.replace(gpu(0), mig_mode=MigMode(current=False, pending=True))
    assert "         MIG on is pending" in written((pending,))


def progress(phase: Phase, **more: Any) -> Progress:
    """What the agent says."""
    return Progress(stamp=STAMP, phase=phase, sentence="it is so", **more)


CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing wanted": (
        {"intent": dataclasses.replace(INTENT, mig_config="")},
        {"config": None, "phase": None, "sentence": None},
    ),
    "not answered": (
        {"intent": INTENT},
        {"config": "all-balanced", "phase": "pending", "sentence": cuts.NOT_HEARD},
    ),
    "an answer to an older wish": (
        {
            "intent": INTENT,
            "progress": dataclasses.replace(
                progress(Phase.SUCCESS),
                stamp=dataclasses.replace(STAMP, generation=Generation(1, 1)),
            ),
        },
        {"phase": "pending", "sentence": cuts.NOT_HEARD},
    ),
    "waiting for a pod": (
        {
            "intent": INTENT,
            "progress": progress(
                Phase.HOLDING, blockers=(HOLDER, HOLDER), since_ns=START_NS, until_ns=START_NS
            ),
        },
        {
            "phase": "holding",
            "sentence": "it is so",
            "blockers": ["ml/a"],
            "pods": [{"pod": "ml/a", "why": "", "since": START}],
            "step": "",
            "since": START,
            "limit": START,
        },
    ),
    "waiting with the controller": (
        {
            "intent": dataclasses.replace(INTENT, drain=DRAIN),
            "progress": progress(Phase.HOLDING, blockers=(HOLDER,), since_ns=1, until_ns=LATER_NS),
        },
        {
            "blockers": ["ml/a", "ml/b"],
            "pods": [
                {"pod": "ml/a", "why": "", "since": START},
                {"pod": "ml/b", "why": "is ending", "since": LATER},
            ],
            "waits": "w",
            "since": START,
            "limit": LATER,
        },
    ),
    "given up by the controller": (
        {
            "intent": dataclasses.replace(
                INTENT, drain=Drain(sentence="late", reason="DrainTimeout", until_ns=LATER_NS)
            ),
            "progress": progress(Phase.PREPARE),
        },
        {"phase": "failed", "reason": "DrainTimeout", "sentence": "late", "retry": LATER},
    ),
    "at work": (
        {
            "intent": dataclasses.replace(INTENT, drain=DRAIN),
            "progress": progress(
                Phase.APPLYING, step="GPU 0: create 1g.10gb at 0", number=2, steps=5
            ),
        },
        {
            "phase": "applying",
            "step": "GPU 0: create 1g.10gb at 0",
            "number": 2,
            "steps": 5,
            "blockers": [],
            "limit": None,
        },
    ),
    "failed": (
        {"intent": INTENT, "progress": progress(Phase.FAILED, reason="InUse", until_ns=LATER_NS)},
        {"phase": "failed", "reason": "InUse", "retry": LATER},
    ),
    "a name that is not there": (
        {
            "intent": dataclasses.replace(
                INTENT, mig_config="", mig_problems=(Problem("", 0, 0, "no such layout"),)
            ),
            "progress": progress(Phase.IDLE),
        },
        {"config": "", "phase": "failed", "reason": "Refused", "sentence": "no such layout"},
    ),
}


@pytest.mark.parametrize(("state", "wanted"), CHANGES.values(), ids=CHANGES.keys())
def test_where_a_change_stands(state: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Of the newest wish alone: what was said of an older one is no answer."""
    found = form((), **state)["mig"]
    assert {key: found[key] for key in wanted} == wanted


def test_people_read_where_a_change_stands_and_who_is_in_its_way() -> None:
    """A line for the layout with the step or the time that is left, and one for each pod."""
    drained = dataclasses.replace(INTENT, drain=DRAIN)
    waiting = progress(Phase.HOLDING, blockers=(HOLDER,))
    lines = written((BALANCED,), intent=drained, progress=waiting)
    assert "  MIG layout all-balanced: holding  for 90 s  given up in 4 min  it is so" in lines
    assert "    → in the way: ml/b  for 30 s  is ending" in lines
    cordoned = dataclasses.replace(INTENT, drain=Drain(sentence="is being cordoned"))
    lines = written((BALANCED,), intent=cordoned, progress=waiting)
    told = lines.index("    waits: is being cordoned")
    assert lines[told + 1] == "    → in the way: ml/a"
    at_work = progress(Phase.APPLYING, step="GPU 0: s", number=2, steps=5)
    lines = written((BALANCED,), intent=INTENT, progress=at_work)
    assert "  MIG layout all-balanced: applying  step 2 of 5: GPU 0: s  it is so" in lines
    failed = progress(Phase.FAILED, reason="InUse", until_ns=LATER_NS + 600 * 1_000_000_000)
    lines = written((BALANCED,), intent=INTENT, progress=failed)
    assert "  MIG layout all-balanced: failed  tried again in 10 min  InUse: it is so" in lines
    assert not any("MIG layout" in line for line in written((BALANCED,)))


def test_people_read_of_a_layout_that_is_refused_and_of_one_that_has_to_wait() -> None:
    """The refused one has no name; what waits for other nodes does so since its agent asked."""
    refused: dict[str, Any] = CHANGES["a name that is not there"][0]
    assert "  MIG layout: failed  Refused: no such layout" in written((BALANCED,), **refused)
    (told,) = troubles.of(form((), **refused) | {"services": SPOKEN}, blank.NOW_NS)[:1]
    assert told.words == "MIG failed: Refused: no such layout"
    later = dataclasses.replace(INTENT, drain=Drain(sentence="other nodes come first"))
    lines = written((BALANCED,), intent=later, progress=progress(Phase.PREPARE, since_ns=START_NS))
    told_at = lines.index("  MIG layout all-balanced: prepare  for 90 s  it is so")
    assert lines[told_at + 1] == "    waits: other nodes come first"
