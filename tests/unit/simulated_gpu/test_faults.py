"""What can be broken, how it shows, and that healing mends it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from shared.nvml import errors
from shared.nvml.driver import PynvmlDriver
from shared.simulation.gpu.faults import FaultError
from shared.simulation.gpu.local import LocalTransport
from tests.support.simulated_nvml import simulated_nvml

CUT = {
    "model": "a100-80gb",
    "instances": [{"profile": "3g.40gb", "start": 4}, {"profile": "3g.40gb", "start": 0}],
}


@pytest.fixture
def node() -> Iterator[LocalTransport]:
    with simulated_nvml(CUT, "t4") as transport:
        yield transport


@pytest.fixture
def nvml(node: LocalTransport) -> Iterator[PynvmlDriver]:
    driver = PynvmlDriver()
    driver.open()
    yield driver
    driver.close()


def test_an_xid_of_a_mig_device_names_its_instance(
    node: LocalTransport, nvml: PynvmlDriver
) -> None:
    """The event comes on the GPU and carries the GPU instance's id, which is not an index."""
    watch = nvml.watch()
    nvml.add(watch, 0)
    node.fault({"gpu": 0, "xid": 94, "instance": 1})
    event = nvml.wait(watch, 0)
    gpu = nvml.gpu(0)
    assert event is not None
    assert (event.gpu_uuid, event.xid) == (gpu.uuid, 94)
    assert event.gpu_instance == gpu.mig_devices[1].gpu_instance == 1
    node.heal({"gpu": 0, "xid": 94, "instance": 1})


def test_every_registered_set_hears_an_event_and_no_other(
    node: LocalTransport, nvml: PynvmlDriver
) -> None:
    """Each watch has events of its own; one that is not for the GPU hears nothing."""
    first, second, other = nvml.watch(), nvml.watch(), nvml.watch()
    nvml.add(first, 1)
    nvml.add(second, 1)
    nvml.add(other, 0)
    node.fault({"gpu": 1, "xid": 48})
    heard = [nvml.wait(watch, 0) for watch in (first, second, other)]
    assert [event.xid if event else None for event in heard] == [48, 48, None]


def test_xid_79_is_told_and_then_the_gpu_is_lost_until_healed(
    node: LocalTransport, nvml: PynvmlDriver
) -> None:
    """The event first; after it every call about that GPU fails, and none about the other."""
    watch = nvml.watch()
    nvml.add(watch, 0)
    node.fault({"gpu": 0, "xid": 79})
    event = nvml.wait(watch, 0)
    assert event is not None
    assert event.lost
    for call in (lambda: nvml.gpu(0), lambda: nvml.wait(watch, 0)):
        with pytest.raises(errors.LostError):
            call()
    assert nvml.gpu(1).model == "Tesla T4"
    assert nvml.count() == 2
    node.heal({"gpu": 0, "xid": 79})
    assert nvml.gpu(0).model == "NVIDIA A100-SXM4-80GB"


def test_a_code_comes_on_the_nth_call_and_as_often_as_asked(
    node: LocalTransport, nvml: PynvmlDriver
) -> None:
    """Counting starts with the fault; calls before and after it are as they should be."""
    node.fault(
        {"nvml": {"call": "nvmlDeviceGetCount_v2", "nth": 2, "error": "TIMEOUT", "times": 2}}
    )
    answers: list[Any] = []
    for _ in range(4):
        try:
            answers.append(nvml.count())
        except errors.NvmlError:
            answers.append("refused")
    assert answers == [2, "refused", "refused", 2]


def test_a_slow_call_delays_itself_only(node: LocalTransport, nvml: PynvmlDriver) -> None:
    """While one thread waits for its answer, another is answered; healing ends the wait."""
    slow = {"nvml": {"call": "nvmlDeviceGetMemoryInfo", "gpu": 0, "delay": "never"}}
    node.fault(slow)
    answers: list[str] = []
    stuck = threading.Thread(target=lambda: answers.append(nvml.gpu(0).model))
    stuck.start()
    assert nvml.gpu(1).model == "Tesla T4"
    assert not answers
    node.heal(slow)
    stuck.join(timeout=5)
    assert answers == ["NVIDIA A100-SXM4-80GB"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"gpu": 7, "xid": 48}, "gpu-a has no GPU 7"),
        ({"gpu": 0, "xid": 48, "instance": 5}, "GPU 0 has no MIG device 5"),
        ({"gpu": 0, "lost": False}, "is no fault of a GPU"),
        ({"mps": "up"}, "is no fault of a GPU"),
        ({"gpu": 7, "mps": "down"}, "gpu-a has no GPU 7"),
        ({"nvml": {"call": "nvmlDeviceGetUuid", "error": "UNKNOWN"}}, "mean nvmlDeviceGetUUID"),
        ({"nvml": {"call": "nvmlDeviceGetUUID", "error": "GPU_LOST"}}, "mean GPU_IS_LOST"),
        ({"nvml": {"call": "nvmlDeviceGetUUID"}}, "write call, and error or delay"),
        ({"nvml": {"call": "nvmlDeviceGetUUID", "delay": "soon"}}, "such as 500ms or 2s"),
    ],
)
def test_a_fault_that_means_nothing_is_refused(
    node: LocalTransport, fault: dict[str, Any], words: str
) -> None:
    """The sentence says what to write instead."""
    with pytest.raises(FaultError, match=words):
        node.fault(fault)


def test_healing_what_is_not_broken_is_refused(node: LocalTransport) -> None:
    """A rehearsal that heals by another map than it broke is told."""
    with pytest.raises(FaultError, match="no fault of nvmlDeviceGetUUID is in force"):
        node.heal({"nvml": {"call": "nvmlDeviceGetUUID", "delay": "2s"}})
