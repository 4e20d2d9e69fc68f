"""The agent says what it does not do, and why."""

from __future__ import annotations

import dataclasses

from services.reconfigurer.agent import loop, progress
from shared.bus.state import Received
from shared.contract.generation import Generation
from shared.contract.messages import (
    ConfigState,
    Intent,
    Inventory,
    Phase,
    Progress,
    Source,
    Stamp,
)
from shared.domain.sharing import (
    UNSHARED,
    SharedResource,
    SharingConfig,
    SourceKind,
    Strategy,
)
from shared.telemetry import spans
from tests.support import hardware

STAMP = Stamp(node="gpu-a", writer="agent-1")
SHARED = SharingConfig(
    strategy=Strategy.TIME_SLICING,
    resources=(SharedResource(name="nvidia.com/gpu", replicas=4),),
)
INTENT = Intent(
    stamp=dataclasses.replace(STAMP, writer="controller-1", generation=Generation(2, 1)),
    sharing=SHARED,
    source=Source(kind=SourceKind.LABEL, config_map="sharing", key="any"),
    state=ConfigState.APPLIED,
)
INVENTORY = Inventory(
    stamp=STAMP,
    driver_version="580.95.05",
    cuda_version=(13, 0),
    gpus=(hardware.gpu(0), hardware.gpu(1)),
    shares=(),
)


def test_sharing_alone_gives_the_agent_nothing_to_do() -> None:
    """It names what is served and that no layout is wanted."""
    found = progress.standing(INTENT, INVENTORY)
    assert found.phase is Phase.IDLE
    for words in ("nothing to do", "time-slicing by sharing/any", "2 GPUs", "no MIG layout"):
        assert words in found.sentence


def test_an_unshared_node_is_named_so() -> None:
    """Nothing selected is no failure."""
    unshared = dataclasses.replace(INTENT, sharing=UNSHARED)
    assert "whole devices" in progress.standing(unshared, INVENTORY).sentence


def test_a_wanted_mig_layout_is_left_alone_and_said_so() -> None:
    """Never a success that did not happen."""
    wanted = dataclasses.replace(INTENT, mig_config="all-1g.10gb")
    found = progress.standing(wanted, INVENTORY)
    assert found.phase is Phase.IDLE
    assert "all-1g.10gb" in found.sentence
    assert "does not change MIG geometry" in found.sentence


def test_wanted_mps_is_said_to_have_no_daemon() -> None:
    """Its clients would wait for a daemon that nobody starts."""
    mps = dataclasses.replace(INTENT, sharing=dataclasses.replace(SHARED, strategy=Strategy.MPS))
    assert "does not supervise MPS" in progress.standing(mps, INVENTORY).sentence


def test_what_has_not_arrived_is_named() -> None:
    """First the intent, then the inventory."""
    assert "no intent" in progress.standing(None, None).sentence
    assert "no inventory" in progress.standing(INTENT, None).sentence


def test_the_same_answer_is_published_once_under_the_intents_generation() -> None:
    """A second inventory that changes nothing for the agent is not told again."""
    published: list[Progress] = []
    agent = loop.Loop(
        STAMP, lambda told, _: published.append(told), spans.Telemetry("agent", "gpu-a")
    )
    agent.on_intent(Received(INTENT, "", 1))
    agent.on_inventory(Received(INVENTORY, "", 1))
    agent.on_inventory(Received(INVENTORY, "", 2))
    assert [told.stamp.generation for told in published] == [Generation(2, 1)] * 2
    assert published[0].sentence != published[1].sentence
