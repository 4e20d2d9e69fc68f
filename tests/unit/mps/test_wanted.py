"""Inventory, held forms and what runs in; which daemons are to run, and how, out."""

from __future__ import annotations

import dataclasses

import pytest

from services.reconfigurer.mps import life, wanted
from shared.contract.generation import Generation
from shared.contract.messages import Inventory
from shared.contract.mps import DaemonState, HeldForm, HeldForms, MpsDaemon
from shared.domain.sharing import SharingConfig, Strategy
from shared.sharing import shares
from tests.support import hardware

A, B = hardware.gpu(0, "GPU-a"), hardware.gpu(1, "GPU-b")
SLICED = hardware.time_sliced(4)
MPS = dataclasses.replace(SLICED, strategy=Strategy.MPS)
NOW, BEFORE = Generation(1, 2), Generation(1, 1)
RUNS = {
    "GPU-a": MpsDaemon(gpu_uuid="GPU-a", state=DaemonState.READY, replicas=8, exclusive=True),
}


def seen(config: SharingConfig, recut: tuple[str, ...] = ()) -> Inventory:
    return Inventory(
        stamp=hardware.stamp(NOW),
        driver_version="580.95.05",
        cuda_version=(13, 0),
        gpus=(A, B),
        shares=shares.shares((A, B), config).shares,
        recut=recut,
    )


def held(*strategies: Strategy, generation: Generation = NOW) -> HeldForms:
    """GPU a is held in these forms."""
    forms = tuple(HeldForm(gpu_uuid="GPU-a", strategy=each) for each in strategies)
    return HeldForms(generation=generation, forms=forms)


def test_a_daemon_for_each_gpu_with_an_equal_part_for_each_client() -> None:
    """80 GB in four, a quarter of the threads; a node that shares by time-slicing has none."""
    found = wanted.aims(seen(MPS), held(), {})
    assert [(uuid, aim.memory_mib, aim.percentage) for uuid, aim in found.items()] == [
        ("GPU-a", 20480, 25),
        ("GPU-b", 20480, 25),
    ]
    assert wanted.aims(seen(SLICED), held(), {}) == {}


@pytest.mark.parametrize(
    ("forms", "exclusive"),
    [
        pytest.param(held(), True, id="nobody"),
        pytest.param(held(Strategy.MPS), True, id="its-own-clients"),
        pytest.param(held(Strategy.MPS, Strategy.TIME_SLICING), False, id="a-time-slicing-pod"),
        pytest.param(held(Strategy.NONE), False, id="a-pod-that-has-it-whole"),
        pytest.param(held(generation=BEFORE), False, id="what-was-held-before-the-change"),
        pytest.param(None, False, id="nothing-is-known"),
    ],
)
def test_a_gpu_is_for_its_clients_alone_when_nobody_else_holds_it(
    forms: HeldForms | None, exclusive: bool
) -> None:
    """A pod that began under another form would lose the GPU at its next CUDA call."""
    assert wanted.aims(seen(MPS), forms, {})["GPU-a"].exclusive is exclusive


def test_while_the_allocator_catches_up_the_mode_stays() -> None:
    """A new number of replicas must not open the GPU for a moment."""
    assert wanted.aims(seen(MPS), held(generation=BEFORE), RUNS)["GPU-a"].exclusive


@pytest.mark.parametrize(
    ("forms", "goes_on"),
    [
        pytest.param(held(Strategy.MPS), True, id="a-client-holds-a-slot"),
        pytest.param(held(), False, id="nobody-does"),
        pytest.param(held(Strategy.TIME_SLICING), False, id="only-the-new-form-is-held"),
        pytest.param(held(generation=BEFORE), True, id="the-allocator-has-not-applied-it"),
        pytest.param(None, True, id="nothing-is-known"),
    ],
)
def test_a_daemon_that_is_wanted_no_more_ends_after_its_clients(
    forms: HeldForms | None, goes_on: bool
) -> None:
    """It keeps the limits that its clients began with, and lets others onto the GPU at once."""
    found = wanted.aims(seen(SLICED), forms, RUNS)
    assert list(found) == (["GPU-a"] if goes_on else [])
    assert all(aim.replicas == 8 and not aim.exclusive for aim in found.values())


def test_a_gpu_that_is_to_be_cut_loses_its_daemon() -> None:
    """Its slots are withheld and idle by then; the driver has to be free of the MPS server."""
    assert list(wanted.aims(seen(MPS, recut=("GPU-a",)), held(), RUNS)) == ["GPU-b"]


def test_what_a_killed_service_left_is_cleared() -> None:
    """Its GPU may still be in a mode in which no pod of today can compute."""
    inventory = seen(SLICED)
    aims = wanted.aims(inventory, held(), RUNS)
    (left,) = wanted.leftovers(inventory, aims, RUNS)
    assert (left.gpu.uuid, left.exclusive) == ("GPU-a", False)
    assert not wanted.leftovers(inventory, wanted.aims(inventory, None, RUNS), RUNS)


def test_aims_differ_by_what_the_daemon_has_to_do() -> None:
    """A GPU that is looked at again is no reason to touch its daemon."""
    aim = wanted.aims(seen(MPS), held(), {})["GPU-a"]
    again = dataclasses.replace(aim, gpu=dataclasses.replace(A, index=5))
    assert aim == again
    assert aim != dataclasses.replace(aim, replicas=5)


def test_the_life_of_a_daemon() -> None:
    """A first start is no death; after one it is down until it answers, whatever is tried."""
    aim = wanted.aims(seen(MPS), held(), {})["GPU-a"]
    told = life.begun(life.unborn(aim, 1), 70)
    assert (told.state, told.since_ns, told.pid) == (DaemonState.STARTING, 1, 70)
    told = life.answering(told, aim, 2, exclusive=True)
    assert (told.state, told.replicas, told.exclusive, told.since_ns) == (
        *(DaemonState.READY, 4, True),
        2,
    )
    assert life.answering(told, aim, 3, exclusive=True) == told
    told = life.ended(told, "it ended by signal 9", 4)
    assert (told.state, told.reason, told.pid) == (DaemonState.DOWN, "it ended by signal 9", 0)
    assert told.exclusive
    told = life.begun(told, 71)
    assert (told.state, told.since_ns) == (DaemonState.DOWN, 4)
    told = life.ended(told, "again", 5)
    assert (told.reason, told.since_ns) == ("again", 4)
    assert life.answering(told, aim, 6, exclusive=True).since_ns == 6
    assert life.silent(life.unborn(aim, 1), "no word", 2).state is DaemonState.DOWN
