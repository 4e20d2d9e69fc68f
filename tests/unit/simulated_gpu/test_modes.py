"""MIG mode, reset and reboot of simulated GPUs: what is in force when, and what survives."""

from __future__ import annotations

import pytest

from shared.nvml.errors import Code
from shared.simulation.gpu import boards
from shared.simulation.gpu.engine import Engine
from shared.simulation.gpu.faults import FaultError
from tests.unit.simulated_gpu import raw
from tests.unit.simulated_gpu.raw import Raw, mig, of_kinds

A100, H100 = "a100-80gb", "h100-sxm-80gb"
OFF, PENDING_ON, ON, PENDING_OFF = (0, 0), (0, 1), (1, 1), (1, 0)
DCGM = {"clients": [{"gpu": 0, "name": "dcgm", "pid": 4711}]}
OTHER = "dcgm:77:x"


def status(node: Raw, on: int) -> Code:
    _, (activation,) = node.call(raw.SET_MODE, node.gpu, on)
    return Code(activation)


@pytest.mark.parametrize("model", [A100, H100])
def test_an_idle_gpu_takes_its_mode_at_once(model: str) -> None:
    """On, on again and off."""
    node = Raw(model)
    assert (status(node, 1), node.mode()) == (Code.SUCCESS, ON)
    assert (status(node, 1), node.mode()) == (Code.SUCCESS, ON)
    assert (status(node, 0), node.mode()) == (Code.SUCCESS, OFF)


@pytest.mark.parametrize("model", [A100, H100])
def test_clients_keep_a_mode_pending(model: str) -> None:
    """The call succeeds, its status says why; without clients the next call brings it."""
    node = Raw(model)
    node.node.fault(DCGM)
    assert (status(node, 1), node.mode()) == (Code.IN_USE, PENDING_ON)
    node.node.heal(DCGM)
    assert (status(node, 1), node.mode()) == (Code.SUCCESS, ON)


def test_a_pending_mode_can_be_taken_back() -> None:
    """Asking for the mode in force leaves nothing pending."""
    node = Raw(A100)
    node.node.fault(DCGM)
    status(node, 1)
    assert (status(node, 0), node.mode()) == (Code.SUCCESS, OFF)


@pytest.mark.parametrize(
    ("model", "code", "mode"), [(A100, Code.IN_USE, PENDING_ON), (H100, Code.SUCCESS, ON)]
)
def test_other_users_of_nvml_keep_the_reset_away(
    model: str, code: Code, mode: tuple[int, int]
) -> None:
    """An Ampere board is reset for its mode, which no open NVML survives; a Hopper is not."""
    node = Raw(model)
    node.engine.answer(OTHER, raw.INIT, [0])
    assert (status(node, 1), node.mode()) == (code, mode)
    node.engine.answer(OTHER, raw.SHUTDOWN, [])
    assert (status(node, 1), node.mode()) == (Code.SUCCESS, ON)


def test_instances_keep_the_mode() -> None:
    """It cannot be switched off beneath them."""
    node = Raw(mig(A100))
    node.place(of_kinds(A100)["1g"], 0)
    assert (status(node, 0), node.mode()) == (Code.IN_USE, PENDING_OFF)


def test_a_mode_that_is_none_and_a_gpu_that_has_none() -> None:
    """Refused with NVML's codes."""
    node = Raw(A100, "t4")
    assert node.code(raw.SET_MODE, node.gpu, 2) is Code.INVALID_ARGUMENT
    _, (t4,) = node.call(raw.HANDLE, 1)
    assert node.code(raw.SET_MODE, t4, 1) is Code.NOT_SUPPORTED


@pytest.mark.parametrize(
    ("until", "after_reset", "after_reboot"),
    [
        ("reset", ON, ON),
        (True, PENDING_ON, ON),
        ("reboot", PENDING_ON, ON),
        ("healed", PENDING_ON, PENDING_ON),
    ],
)
def test_a_mode_may_stay_pending(
    until: object, after_reset: tuple[int, int], after_reboot: tuple[int, int]
) -> None:
    """Until a reset, a reboot, or for ever: as passed-through boards do."""
    node = Raw(A100)
    node.node.fault({"modeStaysPending": until})
    assert (status(node, 1), node.mode()) == (Code.RESET_REQUIRED, PENDING_ON)
    node.call(raw.SHUTDOWN)
    assert node.node.reset("0") is Code.SUCCESS
    node.open()
    assert node.mode() == after_reset
    node.node.reboot()
    node.open()
    assert node.mode() == after_reboot
    node.node.heal({"modeStaysPending": until})
    assert (status(node, 1), node.mode()) == (Code.SUCCESS, ON)


def test_a_stuck_mode_may_be_one_gpus() -> None:
    """Others change as ever."""
    node = Raw(A100, A100)
    node.node.fault({"gpu": 1, "modeStaysPending": True})
    _, (other,) = node.call(raw.HANDLE, 1)
    assert status(node, 1) is Code.SUCCESS
    assert node.call(raw.SET_MODE, other, 1) == (Code.SUCCESS, [Code.RESET_REQUIRED])


def test_a_reset_takes_the_instances_and_brings_the_mode() -> None:
    """The GPU is empty afterwards, the other one is as it was."""
    node = Raw(mig(A100), {"model": A100, "instances": [{"profile": "7g.80gb", "start": 0}]})
    node.place(of_kinds(A100)["1g"], 0)
    node.node.fault(DCGM)
    status(node, 0)
    node.node.heal(DCGM)
    node.call(raw.SHUTDOWN)
    assert node.node.reset(node.node.describe()["gpus"][0]["uuid"]) is Code.SUCCESS
    first, second = node.node.describe()["gpus"]
    assert (first["migMode"], first["gpuInstances"]) == (False, [])
    assert len(second["gpuInstances"]) == 1
    assert node.node.describe()["writes"]["0"]["nvidia-smi --gpu-reset"] == 1


@pytest.mark.parametrize("holder", ["nvml", "client", "process"])
def test_a_gpu_in_use_is_not_reset(holder: str) -> None:
    """Whoever holds it: nothing changes."""
    node = Raw(A100)
    if holder != "nvml":
        node.call(raw.SHUTDOWN)
    if holder == "client":
        node.node.fault(DCGM)
    if holder == "process":
        node.node.start_process(node.node.describe()["gpus"][0]["uuid"], 4711)
    assert node.node.reset("00000000:10:00.0") is Code.IN_USE


def test_a_lost_gpu_is_not_reset_and_a_missing_one_is_named() -> None:
    """Each with its own answer."""
    node = Raw(A100)
    node.node.fault({"gpu": 0, "lost": True})
    assert node.node.reset("0") is Code.GPU_IS_LOST
    with pytest.raises(FaultError, match="gpu-a has no GPU GPU-0"):
        node.node.reset("GPU-0")


@pytest.mark.parametrize(("model", "mode"), [(A100, ON), (H100, OFF)])
def test_what_survives_a_reboot(model: str, mode: tuple[int, int]) -> None:
    """No instance and no process ever; the mode where the board keeps it."""
    node = Raw(mig(model))
    profile = of_kinds(model)["1g"]
    instance = node.made(raw.CREATE, node.gpu, profile.id)
    node.made(raw.CREATE_COMPUTE, instance, 0)
    before = node.node.describe()["gpus"][0]["instances"][0]
    node.node.start_process(before["uuid"], 4711)
    node.node.reboot()
    assert node.code(raw.MODE, node.gpu) is Code.UNINITIALIZED
    now = node.node.describe()
    assert (now["processes"], now["gpus"][0]["gpuInstances"], now["boots"]) == ([], [], 2)
    node.open()
    assert node.mode() == mode
    if mode == OFF:
        status(node, 1)
    instance = node.made(raw.CREATE, node.gpu, profile.id)
    node.made(raw.CREATE_COMPUTE, instance, 0)
    again = node.node.describe()["gpus"][0]["instances"][0]
    assert again["start"] == before["start"]
    assert again["uuid"] != before["uuid"]


def test_processes_take_memory_and_are_listed_where_they_run() -> None:
    """On their MIG device and on its GPU; memory that is not there is not given."""
    node = Raw({"model": A100, "instances": [{"profile": "1g.10gb", "start": 0}]})
    gpu = node.node.describe()["gpus"][0]
    uuid = gpu["instances"][0]["uuid"]
    node.node.start_process(uuid, 11, "train", 9000)
    running = "nvmlDeviceGetComputeRunningProcesses_v3"
    _, (device,) = node.call("nvmlDeviceGetMigDeviceHandleByIndex", node.gpu, 0)
    for handle in (node.gpu, device):
        _, (rows,) = node.call(running, handle)
        ids = (gpu["instances"][0]["gpuInstance"], gpu["instances"][0]["computeInstance"])
        assert [(row["pid"], row["usedGpuMemory"] >> 20) for row in rows] == [(11, 9000)]
        assert (rows[0]["gpuInstanceId"], rows[0]["computeInstanceId"]) == ids
    _, (memory,) = node.call("nvmlDeviceGetMemoryInfo", device)
    assert (memory["used"] >> 20, memory["free"] >> 20) == (9000, 728)
    with pytest.raises(FaultError, match="has 728 MiB left, process 12 wants 729 MiB"):
        node.node.start_process(uuid, 12, "train", 729)
    with pytest.raises(FaultError, match="is in MIG mode: a process computes on one of its MIG"):
        node.node.start_process(gpu["uuid"], 12)
    with pytest.raises(FaultError, match="gpu-a has no device MIG-1"):
        node.node.start_process("MIG-1", 12)
    with pytest.raises(FaultError, match="no process 12 computes on a GPU of gpu-a"):
        node.node.end_process(12)


def test_latencies_are_those_of_the_call() -> None:
    """A slow call says how slow, others are as fast as ever."""
    engine = Engine("gpu-a", boards.build("gpu-a", [A100]), {"nvmlGpuInstanceDestroy": 1.0})
    assert engine.latency_s("nvmlGpuInstanceDestroy") == 1.0
    assert engine.latency_s("nvmlDeviceGetUUID") == 0.0


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"clients": [{"gpu": 0, "pid": 1}]}, "write {gpu: <index>, name: <program>, pid"),
        ({"clients": [{"gpu": 9, "name": "x", "pid": 1}]}, "gpu-a has no GPU 9"),
        ({"clients": []}, "is no fault of a GPU"),
        ({"modeStaysPending": "always"}, "write true, or one of reset, reboot, healed"),
        ({"gpu": 9, "modeStaysPending": True}, "gpu-a has no GPU 9"),
    ],
)
def test_wrong_faults_are_refused(fault: dict[str, object], words: str) -> None:
    """The sentence says what to write instead, and nothing is broken."""
    node = Raw(A100)
    with pytest.raises(FaultError, match=words):
        node.node.fault(fault)
    assert node.node.describe()["clients"] == []
    assert status(node, 1) is Code.SUCCESS


def test_only_what_is_in_force_is_healed() -> None:
    """By the same map that broke it."""
    node = Raw(A100)
    with pytest.raises(FaultError, match="client dcgm holds no GPU"):
        node.node.heal(DCGM)
    with pytest.raises(FaultError, match="no such mode stays pending"):
        node.node.heal({"modeStaysPending": True})
