"""What an inventory tells: lines at the level that says who has to read them, and facts."""

from __future__ import annotations

import dataclasses

import pytest

from services.advertiser import telling
from shared.contract.facts import Fact
from shared.contract.messages import Inventory
from shared.contract.mps import DaemonState, MpsDaemon
from shared.domain.gpu import Health, HealthState
from shared.telemetry import meters, spans
from tests.support import hardware, logged

UP = MpsDaemon(gpu_uuid="GPU-0", state=DaemonState.READY)
DOWN = dataclasses.replace(UP, state=DaemonState.DOWN, reason="it ended")
GPU = hardware.gpu(0, "GPU-0")
SICK = dataclasses.replace(GPU, health=Health(state=HealthState.SICK, reason="XID 79"))
WELL = Inventory(
    stamp=hardware.stamp(),
    driver_version="580.95.05",
    cuda_version=(13, 0),
    gpus=(GPU,),
    shares=(),
    mps=(UP,),
)
BAD = dataclasses.replace(WELL, gpus=(SICK,), mps=(DOWN,))


@pytest.mark.parametrize(
    ("before", "after", "level"),
    [
        pytest.param(WELL, BAD, "warning", id="what-fails"),
        pytest.param(BAD, WELL, "info", id="what-is-well-again"),
    ],
)
def test_a_line_and_a_fact_for_each_device_and_daemon(
    before: Inventory, after: Inventory, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody may have to mend what fails; nobody what is well again."""
    logged.everything(caplog)
    facts: list[Fact] = []
    teller = telling.Teller(lambda fact, _: facts.append(fact), meters.NOTHING)
    teller.tell(before, after, spans.Telemetry("advertiser", "gpu-a").begin("publish inventory"))
    assert len(facts) == 2
    for fact in facts:
        (line,) = logged.lines(caplog, fact.sentence)
        assert (line.level, line.about["gpu"]) == (level, "GPU-0")
