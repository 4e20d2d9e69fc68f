"""The agent is ended at each of its steps, and its driver refuses each of its calls."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from shared.contract.generation import Generation
from shared.contract.messages import Phase
from tests.support.mig_world import rows
from tests.support.simulated_nvml import simulated_nvml
from tests.unit.agent.rig import Rig, uuids

FIRST = Generation(1, 1)
MIXED = {
    "model": "a100-80gb",
    "migMode": "on",
    "instances": [
        {"profile": name, "start": start}
        for name, start in (("1g.10gb", 0), ("1g.10gb", 1), ("2g.20gb", 2), ("3g.40gb", 4))
    ],
}
GPUS = (MIXED, "a100-80gb", MIXED)
WISHES = ({"1g.10gb": 4, "3g.40gb": 1}, {"3g.40gb": 2})
AFTER = [
    [("1g.10gb", 0), ("1g.10gb", 1), ("1g.10gb", 2), ("1g.10gb", 3), ("3g.40gb", 4)],
    [("3g.40gb", 0), ("3g.40gb", 4)],
]
MADE = 6  # writes of the change: one destroyed, a mode, two and two created; no mode on GPU 0


async def change(folder: pathlib.Path, killed: Callable[[Rig], None]) -> Rig:
    """Cut two of three GPUs anew while pods hold an instance that stays and one that goes."""
    with simulated_nvml(*GPUS) as node:
        rig = Rig(node, folder)
        stays, _, goes, big = uuids(rig.gpus()[0])
        rig.pods = {stays: "stays", goes: "goes", big: "big"}
        killed(rig)
        rig.want("wish", *rows(*WISHES), generation=FIRST)
        await rig.until(Phase.SUCCESS)
        assert [rig.layout(0), rig.layout(1)] == AFTER
        assert {stays, big} <= set(uuids(rig.gpus()[0])), "kept with their UUIDs"
        assert rig.pods == {stays: "stays", big: "big"}
        assert rig.evicted == ["goes"]
        assert not rig.writes(2)
        assert not rig.hold.recut, "no hold is left"
        assert (await rig.memory()).change is None
        return rig


async def test_killed_after_each_write_of_the_journal(tmp_path: pathlib.Path) -> None:
    """Every one: the next process comes to the same end, and nobody is evicted twice."""
    clean = await change(tmp_path / "clean", lambda _: None)
    assert clean.written > 8
    for number in range(1, clean.written + 1):

        def killed(rig: Rig, at: int = number) -> None:
            rig.kill_at = at

        await change(tmp_path / str(number), killed)


async def test_killed_after_each_write_to_a_gpu(tmp_path: pathlib.Path) -> None:
    """The journal says what was to be done, only the hardware whether it was."""
    clean = await change(tmp_path / "clean", lambda _: None)
    assert clean.made == MADE
    for number in range(1, clean.made + 1):

        def killed(rig: Rig, at: int = number) -> None:
            rig.kill_after = at

        rig = await change(tmp_path / str(number), killed)
        assert rig.made <= MADE + 1  # a mode that was asked for may be asked for again


CALLS = (
    "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlGpuInstanceCreateComputeInstance",
    "nvmlGpuInstanceDestroy",
    "nvmlComputeInstanceDestroy",
)
FORMER = [("1g.10gb", 0), ("1g.10gb", 1), ("2g.20gb", 2), ("3g.40gb", 4)]
WANTED = [("1g.10gb", start) for start in range(7)]


@pytest.mark.parametrize("times", [1, 2, 3, 4, "all"])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("nth", [1, 2])
async def test_a_driver_that_refuses(
    tmp_path: pathlib.Path, call: str, nth: int, times: int | str
) -> None:
    """As wanted, or as before, or withheld with what was to stay; a reason, never a wait."""
    with simulated_nvml(MIXED) as node:
        rig = Rig(node, tmp_path)
        stays = uuids(rig.gpus()[0])[0]
        rig.pods = {stays: "stays"}
        fault: dict[str, Any] = {
            "nvml": {"call": call, "nth": nth, "error": "UNKNOWN", "times": times}
        }
        rig.node.fault(fault)
        rig.want("all-1g.10gb", generation=FIRST)
        said = await rig.until(Phase.SUCCESS, Phase.FAILED)
        layout = rig.layout(0)
        assert stays in uuids(rig.gpus()[0])
        if said.phase is Phase.SUCCESS:
            assert layout == WANTED
            assert not rig.hold.recut
        else:
            assert "GPU 0" in said.sentence
            assert "UNKNOWN" in said.sentence
            withheld = rig.hold.recut == (rig.gpus()[0]["uuid"],)
            assert withheld is (layout != FORMER)
            assert not withheld or stays in rig.hold.kept
        if times == 1:
            assert said.phase is Phase.SUCCESS
        rig.node.heal(fault)
        rig.told = []
        await rig.until(Phase.SUCCESS)  # a new process tries at once
        assert rig.layout(0) == WANTED
        assert not rig.hold.recut
        assert rig.pods == {stays: "stays"}
