"""What is said about MPS daemons that die and come back, and what the kubelet is to count then."""

from __future__ import annotations

import dataclasses

import pytest

from services.reconfigurer.controller import capacity, daemons, saying
from shared.contract import names
from shared.contract.messages import DeviceCounts, Inventory, Ledger, LedgerRow, SlotCounts
from shared.contract.mps import DaemonState, MpsDaemon
from shared.domain.sharing import Strategy
from shared.domain.slots import Holder, SlotState
from shared.sharing import shares
from tests.support import hardware

GPU = "nvidia.com/gpu"
NODE = saying.About(kind="Node", name="node-a", uid="u1")
MPS = dataclasses.replace(hardware.time_sliced(4), strategy=Strategy.MPS)
READY = MpsDaemon(gpu_uuid="GPU-0", state=DaemonState.READY, since_ns=5)
DOWN = MpsDaemon(gpu_uuid="GPU-0", state=DaemonState.DOWN, reason="it ended", since_ns=9)


def inventory(*known: MpsDaemon) -> Inventory:
    gpus = (hardware.gpu(0),)
    return Inventory(
        stamp=hardware.stamp(),
        driver_version="580.95.05",
        cuda_version=(13, 0),
        gpus=gpus,
        shares=shares.shares(gpus, MPS).shares,
        mps=known,
    )


def row(number: int, strategy: Strategy, state: SlotState = SlotState.HELD) -> LedgerRow:
    return LedgerRow(
        slot=f"GPU-0::{number}",
        resource=GPU,
        gpu_uuid="GPU-0",
        state=state,
        strategy=strategy,
        holder=Holder("team", f"pod-{number}", "main"),
    )


def ledger(*rows: LedgerRow, **counts: int) -> Ledger:
    counted = DeviceCounts(gpu_uuid="GPU-0", resource=GPU, counts=SlotCounts(**counts))
    return Ledger(stamp=hardware.stamp(), rows=rows, counts=(counted,))


def test_a_daemon_that_is_down_is_told_to_its_node_and_its_clients() -> None:
    """A pod that shares the GPU by time-slicing lost nothing."""
    held = ledger(row(0, Strategy.MPS), row(1, Strategy.TIME_SLICING))
    node, pod = daemons.down(NODE, inventory(DOWN), held)
    assert (node.about, node.reason, node.warning) == (NODE, names.MPS_DAEMON_DOWN, True)
    assert node.message == (
        "the MPS daemon of GPU 0 (GPU-0) is down: it ended; its slots take no new pods. Its clients"
        " were team/pod-0."
    )
    assert (pod.about.kind, pod.about.name) == ("Pod", "pod-0")
    assert node.topic == pod.topic


def test_one_death_is_one_event_and_the_next_one_another() -> None:
    """A new leader says nothing twice."""
    again = dataclasses.replace(DOWN, since_ns=99)
    first, same, other = (
        next(daemons.down(NODE, inventory(each), None)).event_name for each in (DOWN, DOWN, again)
    )
    assert first == same != other


def test_a_daemon_that_starts_for_the_first_time_is_no_event() -> None:
    """Nor is one that is up and was never down."""
    starting = dataclasses.replace(DOWN, state=DaemonState.STARTING)
    assert not list(daemons.down(NODE, inventory(starting), None))
    assert not list(daemons.up(NODE, inventory(starting), inventory(READY)))


def test_a_daemon_that_is_up_again_is_told() -> None:
    """Once, on its node."""
    (said,) = daemons.up(NODE, inventory(DOWN), inventory(READY))
    assert (said.reason, said.warning) == (names.MPS_DAEMON_UP, False)
    assert "takes clients again" in said.message


@pytest.mark.parametrize(
    ("daemon", "rows", "expected"),
    [
        pytest.param(READY, (row(0, Strategy.MPS),), 4, id="ready"),
        pytest.param(DOWN, (row(0, Strategy.MPS),), 3, id="down-with-a-client"),
        pytest.param(DOWN, (row(0, Strategy.TIME_SLICING),), 4, id="down-beside-time-slicing"),
    ],
)
def test_what_the_kubelet_is_to_count(
    daemon: MpsDaemon, rows: tuple[LedgerRow, ...], expected: int
) -> None:
    """A held slot of a daemon that is down is listed as unhealthy, and is no drift."""
    counted = ledger(*rows, held=1, free=3)
    assert capacity.expected(counted, inventory(daemon)) == {GPU: expected}


def test_slots_of_two_forms_are_those_of_the_inventory() -> None:
    """A pod that began by time-slicing leaves three slots to MPS, and the ledger answers so."""
    old = row(0, Strategy.TIME_SLICING, SlotState.RETIRING)
    counted = ledger(old, free=3, retiring=1)
    assert capacity.answers(counted, inventory(READY))
