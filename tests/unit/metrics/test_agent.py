"""What the agent measures of a change, on simulated GPUs."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from services.reconfigurer.agent import measures
from shared.contract.generation import Generation
from shared.contract.messages import Phase, Progress
from shared.simulation.gpu.local import LocalTransport
from shared.telemetry import catalogue
from tests.support import hardware
from tests.support.mig_world import rows
from tests.support.simulated_nvml import simulated_nvml
from tests.unit.agent.rig import Rig

FIRST = Generation(1, 1)


@pytest.fixture
def node() -> Iterator[LocalTransport]:
    """One A100 whose MIG mode is off."""
    with simulated_nvml("a100-80gb") as transport:
        yield transport


@pytest.fixture
def rig(node: LocalTransport, tmp_path: pathlib.Path) -> Rig:
    return Rig(node, tmp_path)


def written(rig: Rig) -> dict[tuple[str, str], int]:
    """Calls that changed a GPU, by call and outcome."""
    return {
        (dict(labels)["call"], dict(labels)["outcome"]): count
        for (name, labels), count in rig.measured.counts.items()
        if name == catalogue.MIG_WRITES.exposed
    }


def ended(rig: Rig) -> dict[str, int]:
    """Changes that have ended, by outcome."""
    return {
        dict(labels)["outcome"]: len(seconds)
        for (name, labels), seconds in rig.measured.times.items()
        if name == catalogue.MIG_CHANGE_DURATION.exposed
    }


async def test_a_change_is_timed_and_its_writes_are_counted(rig: Rig) -> None:
    rig.want("two", rows({"3g.40gb": 2})[0], generation=FIRST)
    await rig.until(Phase.SUCCESS)
    assert written(rig) == {("mode", "done"): 1, ("create", "done"): 2}
    assert ended(rig) == {"success": 1}


async def test_a_reset_counts_beside_the_mode_that_needed_it(rig: Rig) -> None:
    rig.node.fault({"gpu": 0, "modeStaysPending": "reset"})
    rig.want("all-1g.10gb", generation=FIRST)
    await rig.until(Phase.SUCCESS)
    assert written(rig) == {("mode", "done"): 1, ("reset", "done"): 1, ("create", "done"): 7}


async def test_what_the_hardware_does_not_take_counts_as_refused(rig: Rig) -> None:
    rig.node.fault({"modeStaysPending": True})
    rig.want("all-1g.10gb", generation=FIRST)
    await rig.until(Phase.FAILED)
    assert written(rig)["mode", "refused"] >= 1
    assert ended(rig)["failed"] >= 1
    assert "success" not in ended(rig)


def test_exactly_the_phase_of_now_is_shown() -> None:
    said = Progress(stamp=hardware.stamp(), phase=Phase.HOLDING, sentence="waits")
    (sample,) = measures.samples(said)
    assert (sample.instrument, sample.value) == (catalogue.CHANGE_PHASE, 1)
    assert sample.labels == {"phase": "holding"}
    assert list(measures.samples(None)) == []
