"""Use of simulated GPUs through pynvml: what is said, what is not, and that nothing is guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pynvml
import pytest

from shared.nvml import driver, errors, sampling
from shared.nvml.port import ProcessUse, Sample
from shared.simulation.gpu import boards, install, library
from shared.simulation.gpu.engine import Engine
from shared.simulation.gpu.local import LocalTransport
from tests.support.simulated_nvml import c_library, simulated_nvml

nvml: Any = pynvml
CUT = {
    "model": "a100-80gb",
    "instances": [{"profile": "3g.40gb", "start": 0}, {"profile": "1g.10gb", "start": 4}],
}
HOPPER_CUT = {"model": "h100-sxm-80gb", "instances": [{"profile": "1g.10gb", "start": 0}]}
SECOND_NS = 10**9


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_ns = 1_796_000_000 * SECOND_NS

    def __call__(self) -> int:
        return self.now_ns

    def passes(self, seconds: float) -> None:
        self.now_ns += int(seconds * SECOND_NS)


class Rig:
    """A node whose GPUs are sampled."""

    def __init__(self, node: LocalTransport, clock: Clock) -> None:
        self.node, self.clock = node, clock
        self.driver, self.sampler = driver.PynvmlDriver(), sampling.PynvmlSampler()
        self.driver.open()

    def uuid(self, index: int) -> str:
        return str(self.node.describe()["gpus"][index]["uuid"])

    def instance(self, index: int, number: int = 0) -> str:
        return str(self.node.describe()["gpus"][index]["instances"][number]["uuid"])

    def sample(self, index: int) -> tuple[Sample, ...]:
        return self.sampler.sample(self.driver.gpu(index))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["python", "c"])
def rig(request: pytest.FixtureRequest, clock: Clock) -> Iterator[Rig]:
    """A whole GPU, one that is cut, and one that is cut and newer."""
    specs = ("a100-80gb", CUT, HOPPER_CUT)
    transport = LocalTransport(Engine("gpu-a", boards.build("gpu-a", specs), now_ns=clock))
    made = library.library if request.param == "python" else c_library
    install.install(transport)
    install.replace(made(transport))
    yield Rig(transport, clock)
    install.remove()


def test_an_idle_gpu_says_so(rig: Rig) -> None:
    """Nobody, nothing, and none of the time."""
    (whole,) = rig.sample(0)
    assert (whole.used_mib, whole.sm_percent, whole.processes) == (0, 0, ())
    assert whole.memory_mib > 80_000
    assert whole.uuid == whole.gpu_uuid == rig.uuid(0)


def test_processes_are_told_with_memory_and_time(rig: Rig) -> None:
    """Each its own; the GPU all of it."""
    rig.node.start_process(rig.uuid(0), 11, "train", 9000, 60)
    rig.node.start_process(rig.uuid(0), 12, "serve", 500, 20)
    rig.clock.passes(1)
    (whole,) = rig.sample(0)
    assert (whole.used_mib, whole.sm_percent) == (9500, 80)
    assert whole.processes == (
        ProcessUse(pid=11, memory_mib=9000, sm_percent=60),
        ProcessUse(pid=12, memory_mib=500, sm_percent=20),
    )


def test_processes_that_want_more_than_there_is_share_it(rig: Rig) -> None:
    """As on a card in time slices: the sum is the whole."""
    for pid in (11, 12):
        rig.node.start_process(rig.uuid(0), pid, "train", 100, 90)
    rig.clock.passes(1)
    (whole,) = rig.sample(0)
    assert whole.sm_percent == 100
    assert [each.sm_percent for each in whole.processes] == [50, 50]


def test_a_process_that_rests_is_listed_with_nothing(rig: Rig) -> None:
    """NVML samples those that computed; one that is not in them did not."""
    rig.node.start_process(rig.uuid(0), 11, "train", 100, 70)
    rig.node.start_process(rig.uuid(0), 12, "rests", 200)
    rig.clock.passes(1)
    assert [each.sm_percent for each in rig.sample(0)[0].processes] == [70, 0]
    rig.node.end_process(11)
    rig.clock.passes(1)
    assert rig.sample(0)[0].processes == (ProcessUse(pid=12, memory_mib=200, sm_percent=0),)


def test_the_driver_is_asked_for_what_is_new_only(rig: Rig) -> None:
    """Between two of its samples there is nothing, after the next there is."""
    rig.node.start_process(rig.uuid(0), 11, "train", 100, 70)
    rig.clock.passes(1)
    assert rig.sample(0)[0].processes[0].sm_percent == 70
    assert rig.sample(0)[0].processes[0].sm_percent == 0
    rig.clock.passes(0.2)
    assert rig.sample(0)[0].processes[0].sm_percent == 70


def test_a_cut_gpu_is_told_device_by_device(rig: Rig) -> None:
    """Memory of each, the processes where they run, and no time, for Ampere does not say it."""
    rig.node.start_process(rig.instance(1), 11, "train", 9000, 60)
    rig.clock.passes(1)
    parent, first, second = rig.sample(1)
    assert (parent.uuid, parent.used_mib, parent.processes) == (rig.uuid(1), 9000, ())
    assert (first.uuid, first.gpu_uuid) == (rig.instance(1), rig.uuid(1))
    assert first.processes == (ProcessUse(pid=11, memory_mib=9000, sm_percent=None),)
    assert (second.used_mib, second.processes) == (0, ())
    assert {each.sm_percent for each in (parent, first, second)} == {None}
    assert first.memory_mib < parent.memory_mib


def test_a_newer_cut_gpu_says_the_time_of_its_devices(rig: Rig) -> None:
    """Of the device, not of the processes on it, and not of the whole GPU."""
    rig.node.start_process(rig.instance(2), 11, "train", 100, 60)
    rig.clock.passes(1)
    parent, device = rig.sample(2)
    assert (parent.sm_percent, device.sm_percent) == (None, 60)
    assert device.processes[0].sm_percent is None


def test_another_gpu_at_the_index_is_refused(rig: Rig) -> None:
    """The use of one card is never told as another's."""
    former, other = rig.driver.gpu(0), rig.driver.gpu(1)
    moved = type(former)(
        **{name: getattr(former, name) for name in former.__slots__} | {"index": 1}
    )
    with pytest.raises(errors.NotFoundError, match="another GPU"):
        rig.sampler.sample(moved)
    assert rig.sampler.sample(other)


@pytest.mark.parametrize(
    ("code", "kind"),
    [("GPU_IS_LOST", errors.LostError), ("UNKNOWN", errors.NvmlError)],
)
def test_a_gpu_that_fails_is_an_error(rig: Rig, code: str, kind: type[Exception]) -> None:
    """The caller leaves it out."""
    gpu = rig.driver.gpu(0)
    call = "nvmlDeviceGetComputeRunningProcesses_v3"
    rig.node.fault({"nvml": {"call": call, "error": code}})
    with pytest.raises(kind, match="while reading the use of GPU 0"):
        rig.sampler.sample(gpu)


@pytest.mark.parametrize(
    ("symbol", "told"),
    [
        pytest.param("nvmlDeviceGetMemoryInfo_v2", (100, 70, 1, 70), id="memory"),
        pytest.param("nvmlDeviceGetUtilizationRates", (100, None, 1, 70), id="rates"),
        pytest.param("nvmlDeviceGetProcessUtilization", (100, 70, 1, None), id="time of processes"),
        pytest.param("nvmlDeviceGetGraphicsRunningProcesses_v3", (100, 70, 1, 70), id="graphics"),
        pytest.param(
            "nvmlDeviceGetMPSComputeRunningProcesses_v3", (100, 70, 1, 70), id="clients of MPS"
        ),
    ],
)
def test_what_an_old_driver_lacks_is_not_said(
    clock: Clock, symbol: str, told: tuple[int, int | None, int, int | None]
) -> None:
    """The rest is."""
    transport = LocalTransport(Engine("gpu-a", boards.build("gpu-a", ["t4"]), now_ns=clock))
    old = library.library(transport)
    delattr(old, symbol)
    install.install(transport)
    install.replace(old)
    try:
        rig = Rig(transport, clock)
        rig.node.start_process(rig.uuid(0), 11, "train", 100, 70)
        clock.passes(1)
        (whole,) = rig.sample(0)
    finally:
        install.remove()
    assert (
        whole.used_mib,
        whole.sm_percent,
        len(whole.processes),
        whole.processes[0].sm_percent,
    ) == told


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(
            lambda *_: nvml.NVML_ERROR_INSUFFICIENT_SIZE, id="more came between the calls"
        ),
        pytest.param(lambda *_: nvml.NVML_ERROR_NO_PERMISSION, id="not allowed"),
    ],
)
def test_time_that_cannot_be_read_now_is_unknown(answer: Callable[..., int]) -> None:
    """Unknown, not none."""
    assert time_said(answer) is None


def test_an_answer_without_samples_is_rest() -> None:
    """Some drivers answer with success and no sample, which pynvml raises."""
    assert time_said(lambda *_: nvml.NVML_SUCCESS) == 0


def time_said(answer: Callable[..., int]) -> int | None:
    """What is said of a process while the driver answers so."""
    with simulated_nvml("t4") as transport:
        strange = library.library(transport)
        strange.nvmlDeviceGetProcessUtilization = answer
        install.replace(strange)
        nvml_driver = driver.PynvmlDriver()
        nvml_driver.open()
        gpu = nvml_driver.gpu(0)
        transport.start_process(gpu.uuid, 11, "train", 100, 70)
        (whole,) = sampling.PynvmlSampler().sample(gpu)
    return whole.processes[0].sm_percent


def test_a_process_in_two_lists_is_one_process() -> None:
    """One that computes and draws takes its memory once."""
    with simulated_nvml("t4") as transport:
        both = library.library(transport)
        both.nvmlDeviceGetGraphicsRunningProcesses_v3 = both.nvmlDeviceGetComputeRunningProcesses_v3
        install.replace(both)
        nvml_driver = driver.PynvmlDriver()
        nvml_driver.open()
        gpu = nvml_driver.gpu(0)
        transport.start_process(gpu.uuid, 11, "train", 100)
        (whole,) = sampling.PynvmlSampler().sample(gpu)
    assert [(each.pid, each.memory_mib) for each in whole.processes] == [(11, 100)]
