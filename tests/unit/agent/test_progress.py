"""What the agent says where no MIG layout is wanted."""

from __future__ import annotations

import dataclasses

from services.reconfigurer.agent import progress
from shared.contract.messages import Inventory
from shared.domain.sharing import UNSHARED
from tests.support import hardware

INTENT = hardware.intent(hardware.time_sliced(4))
INVENTORY = Inventory(
    stamp=hardware.stamp(),
    driver_version="580.95.05",
    cuda_version=(13, 0),
    gpus=(hardware.gpu(0), hardware.gpu(1)),
    shares=(),
)


def test_sharing_alone_gives_the_agent_nothing_to_do() -> None:
    """It names what is served and that no layout is wanted."""
    said = progress.nothing_to_do(INTENT, INVENTORY)
    for words in ("nothing to do", "time-slicing by sharing/any", "2 GPUs", "no MIG layout"):
        assert words in said


def test_an_unshared_node_is_named_so() -> None:
    """Nothing selected is no failure."""
    unshared = dataclasses.replace(INTENT, sharing=UNSHARED)
    assert "whole devices" in progress.nothing_to_do(unshared, INVENTORY)


def test_what_has_not_arrived_is_named() -> None:
    """Without an inventory nobody knows how many GPUs there are."""
    assert "no inventory" in progress.nothing_to_do(INTENT, None)
