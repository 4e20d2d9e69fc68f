"""Layouts that are wanted, on simulated GPUs: what is written, kept, refused and said."""

from __future__ import annotations

import asyncio
import pathlib
from collections import Counter
from collections.abc import Iterator

import pytest

from services.reconfigurer.agent.memory import Reason
from shared.contract.generation import Generation
from shared.contract.messages import Drift, MigPolicy, Phase
from shared.nvml.driver import PynvmlDriver
from shared.nvml.writing import PynvmlWriter
from shared.simulation.gpu.local import LocalTransport
from shared.telemetry import context
from tests.support import logged
from tests.support.eventually import eventually
from tests.support.mig_world import rows
from tests.support.simulated_nvml import simulated_nvml
from tests.unit.agent.rig import TRACE, Rig, uuids

FIRST, SECOND, THIRD = (Generation(1, counter) for counter in (1, 2, 3))
A100 = "a100-80gb"
ON = {"model": A100, "migMode": "on"}


def cut(*places: tuple[str, int]) -> dict[str, object]:
    """A GPU in MIG mode with these instances."""
    return {**ON, "instances": [{"profile": name, "start": start} for name, start in places]}


def destroy_by_hand(index: int) -> None:
    """Take the GPU's first instance away, as a person with nvidia-smi would."""
    nvml, writer = PynvmlDriver(), PynvmlWriter()
    nvml.open()
    gpu = nvml.gpu(index)
    writer.destroy_instance(gpu, writer.instances(gpu)[0].id)
    nvml.close()


MIXED = cut(("1g.10gb", 0), ("1g.10gb", 1), ("2g.20gb", 2), ("3g.40gb", 4))


@pytest.fixture
def gpus(request: pytest.FixtureRequest) -> Iterator[LocalTransport]:
    with simulated_nvml(*request.param) as node:
        yield node


@pytest.fixture
def rig(gpus: LocalTransport, tmp_path: pathlib.Path) -> Rig:
    return Rig(gpus, tmp_path)


@pytest.mark.parametrize("gpus", [(MIXED, *[MIXED] * 7)], indirect=True)
async def test_dropping_one_instance_is_two_writes(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """The figure of the issue: on one GPU of eight, and no call that writes on the others."""
    logged.everything(caplog)
    before = uuids(rig.gpus()[0])
    wish = {"1g.10gb": 1, "2g.20gb": 1, "3g.40gb": 1}
    rig.want("drop", rows(wish)[0], generation=FIRST)
    await rig.until(Phase.SUCCESS)
    assert rig.writes(0) == {"nvmlComputeInstanceDestroy": 1, "nvmlGpuInstanceDestroy": 1}
    assert all(not rig.writes(index) for index in range(1, 8))
    assert set(uuids(rig.gpus()[0])) < set(before)
    assert len(before) - len(uuids(rig.gpus()[0])) == 1
    assert rig.phases() == [Phase.PREPARE, Phase.HOLDING, Phase.APPLYING, Phase.SUCCESS]
    (line,) = logged.lines(caplog, "GPU 0: destroy 1g.10gb at 1: done")
    assert (line.level, line.about["trace"]) == ("info", context.trace_id(TRACE))
    steps = [(each.step, each.number, each.steps) for each in rig.told if each.steps]
    assert steps[-1][1:] == (1, 1)
    assert [each.level for each in logged.lines(caplog, "success: ")] == ["info"]
    assert [each.message for each in logged.lines(caplog, "hold ")] == [
        "hold of 1 slots: its GPU is being cut anew",
        "the hold has ended",
    ]


@pytest.mark.parametrize("gpus", [(MIXED, ON, "t4")], indirect=True)
async def test_what_gpus_can_be_cut_into_is_said_with_everything(rig: Rig) -> None:
    """By their drivers' word, equal ones together; who waits for an instance learns what fits."""
    rig.want("all-1g.10gb", generation=FIRST)
    await rig.until(Phase.SUCCESS)
    first, second, _ = rig.gpus()
    for said in rig.told:
        (each,) = said.boards
        assert each.gpus == (first["uuid"], second["uuid"])
        profile = each.board.find("1g.10gb")
        assert profile is not None
        assert profile.starts == (0, 1, 2, 3, 4, 5, 6)


@pytest.mark.parametrize("gpus", [(MIXED,)], indirect=True)
async def test_u059_a_busy_instance_that_is_wanted_again_stays(rig: Rig) -> None:
    """Its pod is neither evicted nor touched; those in the way are named and evicted."""
    busy, _, _, three = uuids(rig.gpus()[0])
    rig.pods = {busy: "stays", three: "goes"}
    rig.want("all-1g.10gb", generation=FIRST)
    await rig.until(Phase.SUCCESS)
    assert rig.layout(0) == [("1g.10gb", start) for start in range(7)]
    assert busy in uuids(rig.gpus()[0])
    assert rig.evicted == ["goes"]
    assert rig.pods == {busy: "stays"}
    asked = next(each for each in rig.told if each.phase is Phase.PREPARE)
    assert [holder.pod for holder in asked.blockers] == ["goes"]
    assert three in asked.slots
    assert busy not in asked.slots
    assert not rig.hold.recut


@pytest.mark.parametrize("gpus", [(cut(("3g.40gb", 0)),)], indirect=True)
async def test_u059_a_busy_instance_in_the_way_is_the_blocker(rig: Rig) -> None:
    """A layout that leaves no room for it has to wait for its pod, and says for which."""
    (three,) = uuids(rig.gpus()[0])
    rig.pods, rig.evicts = {three: "slow"}, False
    rig.want("all-1g.10gb", generation=FIRST)
    async with rig.serving():
        await rig.until_said(Phase.HOLDING)
        await eventually(lambda: "team/slow" in rig.told[-1].sentence)
    assert [holder.pod for holder in rig.told[-1].blockers] == ["slow"]
    assert not rig.writes(0)


@pytest.mark.parametrize("gpus", [(ON,)], indirect=True)
@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        ({"1g.10gb": 1, "2g.20gb": 1, "4g.40gb": 1}, {"4g.40gb": 0, "2g.20gb": 4, "1g.10gb": 6}),
        ({"4g.40gb": 1, "1g.10gb": 1, "2g.20gb": 1}, {"4g.40gb": 0, "2g.20gb": 4, "1g.10gb": 6}),
        ({"3g.40gb": 1, "4g.40gb": 1}, {"4g.40gb": 0, "3g.40gb": 4}),
    ],
)
async def test_u057_the_order_of_the_wish_does_not_matter(
    rig: Rig, wish: dict[str, int], expected: dict[str, int]
) -> None:
    """Places are chosen before anything is made."""
    rig.want("wish", *rows(wish), generation=FIRST)
    await rig.until(Phase.SUCCESS)
    assert dict(rig.layout(0)) == expected


@pytest.mark.parametrize("gpus", [(MIXED,)], indirect=True)
@pytest.mark.parametrize("wish", [{"1g.10gb": 8}, {"3g.40gb": 3}, {"4g.40gb": 2}, {"9g.90gb": 1}])
async def test_u057_what_cannot_be_is_refused_before_anybody_is_disturbed(
    rig: Rig, wish: dict[str, int]
) -> None:
    """No preparation, no hold, no write."""
    rig.want("impossible", *rows(wish), generation=FIRST)
    said = await rig.until(Phase.FAILED)
    assert said.reason == Reason.REFUSED
    assert "GPU 0" in said.sentence
    assert rig.phases() == [Phase.FAILED]
    assert not rig.writes(0)


@pytest.mark.parametrize(
    "gpus",
    [
        (
            {"model": "a30-24gb", "migMode": "on", "profileIds": {"1g.6gb": 15}},
            {"model": "a30-24gb", "migMode": "on"},
        )
    ],
    indirect=True,
)
async def test_u055_each_gpu_is_cut_by_its_own_profile_ids(rig: Rig) -> None:
    """GPU 1's id for a profile is another than GPU 0's; GPU 0 is not written to."""
    rig.want("four", rows(None, {"1g.6gb": 4})[1], generation=FIRST)
    await rig.until(Phase.SUCCESS)
    assert rig.layout(1) == [("1g.6gb", start) for start in range(4)]
    assert not rig.writes(0)


@pytest.mark.parametrize("gpus", [(A100, cut(("1g.10gb", 0)))], indirect=True)
async def test_a_mode_change_pauses_everybody_and_leaves_other_gpus_alone(rig: Rig) -> None:
    """A whole GPU with a pod: evicted, NVML let go, mode on, cut; the other one is as it was."""
    rig.pods = {rig.gpus()[0]["uuid"]: "whole"}
    rig.want("balanced", rows({"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1})[0], generation=FIRST)
    await rig.until(Phase.SUCCESS)
    asked = next(each for each in rig.told if each.phase is Phase.PREPARE)
    assert "nvidia.com/gpu.deploy.dcgm-exporter" in asked.components
    assert rig.evicted == ["whole"]
    assert len(rig.layout(0)) == 4
    assert rig.writes(0)["nvmlDeviceSetMigMode"] == 1
    assert not rig.writes(1)


@pytest.mark.parametrize("gpus", [(A100,)], indirect=True)
async def test_a_pending_mode_is_reset_on_its_gpu_only(rig: Rig) -> None:
    """The driver could not reset by itself: nvidia-smi does, once."""
    rig.node.fault({"gpu": 0, "modeStaysPending": "reset"})
    rig.want("all-1g.10gb", generation=FIRST)
    await rig.until(Phase.SUCCESS)
    assert rig.writes(0)["nvidia-smi --gpu-reset"] == 1
    assert len(rig.layout(0)) == 7


@pytest.mark.parametrize("gpus", [(A100,)], indirect=True)
async def test_u077_clients_of_the_host_are_named_and_nobody_is_evicted_twice(rig: Rig) -> None:
    """Failed with pids and the former layout; the retry looks first, and only then asks again."""
    clients = {
        "clients": [
            {"gpu": 0, "name": "dcgm", "pid": 4711},
            {"gpu": 0, "name": "nvidia-persistenced", "pid": 815},
        ]
    }
    rig.node.fault(clients)
    await rig.show_clients()
    rig.pods = {rig.gpus()[0]["uuid"]: "first"}
    rig.want("all-1g.10gb", generation=FIRST)
    said = await rig.until(Phase.FAILED)
    assert said.reason == Reason.IN_USE
    assert "dcgm (4711)" in said.sentence
    assert "nvidia-persistenced (815)" in said.sentence
    assert "as it was before (MIG off)" in said.sentence
    assert not rig.hold.recut
    (gpu,) = rig.gpus()
    assert (gpu["migMode"], gpu["migPending"]) == (False, False)
    span = next(each for each in rig.spans if each.name == "switch MIG mode")
    assert "4711" in span.error
    # A new process tries at once; the clients are still there, so nobody is asked to go.
    rig.pods, rig.told = {gpu["uuid"]: "second"}, []
    assert (await rig.until(Phase.FAILED)).reason == Reason.IN_USE
    assert rig.phases() == [Phase.FAILED]
    assert rig.pods == {gpu["uuid"]: "second"}
    rig.node.heal(clients)
    await rig.show_clients()
    rig.told = []
    await rig.until(Phase.SUCCESS)
    assert rig.evicted == ["first", "second"]


@pytest.mark.parametrize("gpus", [(A100,)], indirect=True)
async def test_u077_clients_that_forbid_a_reset_are_found_before_an_instance_goes(
    rig: Rig,
) -> None:
    """With them nothing could be made again, so the former layout stands untouched."""
    rig.want("all-3g.40gb", generation=FIRST)
    await rig.until(Phase.SUCCESS)
    before, writes = rig.gpus()[0]["instances"], rig.writes(0)
    rig.node.fault({"clients": [{"gpu": 0, "name": "dcgm", "pid": 4711}]})
    await rig.show_clients()
    rig.want("all-disabled", generation=SECOND)
    said = await rig.until(Phase.FAILED)
    assert said.reason == Reason.IN_USE
    assert "dcgm (4711)" in said.sentence
    assert rig.gpus()[0]["instances"] == before
    assert rig.writes(0) == writes


@pytest.mark.parametrize("gpus", [(A100,)], indirect=True)
async def test_u073_without_the_policy_a_reboot_is_asked_for_once(rig: Rig) -> None:
    """RebootRequired, the pending mode taken back, and no loop."""
    rig.node.fault({"modeStaysPending": True})
    rig.want("all-1g.10gb", generation=FIRST)
    said = await rig.until(Phase.FAILED)
    assert said.reason == Reason.REBOOT_REQUIRED
    (gpu,) = rig.gpus()
    assert (gpu["migMode"], gpu["migPending"]) == (False, False)
    writes = rig.writes(0)
    rig.told = []
    await rig.until(Phase.FAILED)  # a new process finds nothing to try
    assert rig.writes(0) == writes
    assert rig.boots == 0


@pytest.mark.parametrize("gpus", [(A100,)], indirect=True)
async def test_u073_with_the_policy_the_node_boots_once(rig: Rig) -> None:
    """`rebooting` is said and on disk before; after the boot the layout is made without a drain."""
    rig.node.fault({"modeStaysPending": True})
    rig.want("all-1g.10gb", generation=FIRST, policy=MigPolicy(reboot=True))
    await rig.until(Phase.SUCCESS)
    assert rig.boots == 1
    assert Phase.REBOOTING in rig.phases()
    assert rig.phases()[-2:] == [Phase.APPLYING, Phase.SUCCESS]
    assert len(rig.layout(0)) == 7


@pytest.mark.parametrize("gpus", [(A100,)], indirect=True)
async def test_u073_a_mode_that_stays_pending_after_the_boot_fails(rig: Rig) -> None:
    """At most one boot for a wanted state."""
    rig.node.fault({"gpu": 0, "modeStaysPending": "healed"})
    rig.want("all-1g.10gb", generation=FIRST, policy=MigPolicy(reboot=True))
    said = await rig.until(Phase.FAILED)
    assert said.reason == Reason.REBOOT_REQUIRED
    assert rig.boots == 1
    rig.want("all-1g.10gb", generation=SECOND, policy=MigPolicy(reboot=True))
    await rig.until(Phase.FAILED)
    assert rig.boots == 1


@pytest.mark.parametrize("gpus", [(ON, ON)], indirect=True)
async def test_u061_after_a_reboot_the_layout_is_made_again_without_a_drain(rig: Rig) -> None:
    """The label has not changed and was a success; hardware is compared with what is wanted."""
    rig.want("all-1g.10gb", generation=FIRST)
    await rig.until(Phase.SUCCESS)
    before = [uuids(gpu) for gpu in rig.gpus()]
    rig.node.reboot()
    rig.boot_id, rig.told, rig.prepares = "boot-2", [], False
    await rig.until(Phase.SUCCESS)
    assert Phase.PREPARE not in rig.phases()
    after = [uuids(gpu) for gpu in rig.gpus()]
    assert [len(each) for each in after] == [7, 7]
    assert not {each for gpu in before for each in gpu} & {each for gpu in after for each in gpu}


@pytest.mark.parametrize("gpus", [({"model": "h100-sxm-80gb", "migMode": "on"},)], indirect=True)
async def test_u061_a_hopper_loses_its_mode_with_the_boot(rig: Rig) -> None:
    """The mode is set again as well; with nobody there, nobody is evicted."""
    rig.want("all-1g.10gb", generation=FIRST)
    await rig.until(Phase.SUCCESS)
    rig.node.reboot()
    rig.boot_id, rig.told = "boot-2", []
    await rig.until(Phase.SUCCESS)
    assert rig.phases()[0] is Phase.PREPARE  # the whole GPU is offered until then
    assert rig.evicted == []
    assert len(rig.layout(0)) == 7


@pytest.mark.parametrize("gpus", [(MIXED,)], indirect=True)
@pytest.mark.parametrize("drift", list(Drift))
async def test_instances_that_were_changed_by_hand_are_reported_or_repaired(
    rig: Rig, drift: Drift
) -> None:
    """By policy; a report touches nothing."""
    policy = MigPolicy(drift=drift)
    rig.want("all-1g.10gb", generation=FIRST, policy=policy)
    await rig.until(Phase.SUCCESS)
    await asyncio.to_thread(destroy_by_hand, 0)
    rig.told, writes = [], rig.writes(0)
    said = await rig.until(Phase.FAILED, Phase.SUCCESS)
    if drift is Drift.REPORT:
        assert said.reason == Reason.DRIFT
        assert "GPU 0 was changed by hand: it is 6 x 1g.10gb" in said.sentence
        assert rig.writes(0) == writes
    else:
        assert said.phase is Phase.SUCCESS
        assert len(rig.layout(0)) == 7


@pytest.mark.parametrize("gpus", [(MIXED, MIXED)], indirect=True)
async def test_a_newer_generation_takes_over_while_pods_are_waited_for(rig: Rig) -> None:
    """Only the newest is acted on; its own preparation is asked for, and the rest let go."""
    rig.evicts = False
    rig.pods = {uuids(rig.gpus()[0])[3]: "slow"}
    rig.want("first", rows({"1g.10gb": 2})[0], generation=FIRST)
    async with rig.serving():
        await rig.until_said(Phase.HOLDING)
        assert rig.hold.recut == (rig.gpus()[0]["uuid"],)
        rig.want("second", rows(None, {"1g.10gb": 2})[1], generation=SECOND)
        await rig.until_said(Phase.SUCCESS)
    assert not rig.writes(0)
    assert len(rig.layout(1)) == 2
    assert len(rig.pods) == 1
    assert not rig.hold.recut


@pytest.mark.parametrize("gpus", [(MIXED,)], indirect=True)
async def test_every_span_belongs_to_the_trace_of_the_intent(rig: Rig) -> None:
    """Over a restart in the middle as well: the journal keeps it."""
    rig.pods = {uuids(rig.gpus()[0])[3]: "goes"}
    rig.kill_at = 5
    rig.want("all-1g.10gb", generation=FIRST)
    await rig.until(Phase.SUCCESS)
    names = Counter(span.name for span in rig.spans)
    assert {"plan layout", "empty slots", "cut GPU", "change layout"} <= names.keys()
    writes = sum(names[each] for each in ("destroy instance", "create instance"))
    calls = sum(rig.writes(0).values())
    assert calls == 2 * writes
    assert {span.trace_id for span in rig.spans} == {context.trace_id(TRACE)}
