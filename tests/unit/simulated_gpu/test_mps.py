"""Compute modes and MPS daemons of the simulated node, and what its control program answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared.domain.gpu import Gpu
from shared.nvml import compute_mode, errors
from shared.nvml.driver import PynvmlDriver
from shared.nvml.errors import Code
from shared.simulation.gpu import boards, faults, install
from shared.simulation.gpu.engine import Engine
from shared.simulation.gpu.local import LocalTransport
from shared.simulation.gpu.mps_commands import Commands
from tests.support.simulated_nvml import c_library, simulated_nvml


def process(uuid: str, pid: int, *, mps: bool = False) -> dict[str, object]:
    return {"uuid": uuid, "pid": pid, "name": "python", "memoryMiB": 1, "mps": mps}


@pytest.fixture
def engine() -> Engine:
    return Engine("gpu-a", boards.build("gpu-a", ["a100-80gb", "t4"]))


@pytest.fixture
def node() -> Iterator[LocalTransport]:
    """Over a true C ABI, which shows that the signatures are NVML's own."""
    with simulated_nvml("a100-80gb", "t4") as transport:
        install.replace(c_library(transport))
        yield transport


@pytest.fixture
def gpu(node: LocalTransport) -> Gpu:
    driver = PynvmlDriver()
    driver.open()
    return driver.gpu(0)


def mode(node: LocalTransport) -> list[int]:
    return [gpu["computeMode"] for gpu in node.describe()["gpus"]]


def test_the_mode_of_one_gpu_is_set_and_set_back(node: LocalTransport, gpu: Gpu) -> None:
    """The other GPU keeps its own."""
    compute_mode.set_mode(gpu, exclusive=True)
    assert mode(node) == [3, 0]
    compute_mode.set_mode(gpu, exclusive=False)
    assert mode(node) == [0, 0]


def test_a_boot_forgets_the_mode(node: LocalTransport, gpu: Gpu) -> None:
    """As the driver does, which is loaded anew."""
    compute_mode.set_mode(gpu, exclusive=True)
    node.reboot()
    assert mode(node) == [0, 0]


def test_without_the_rights_the_mode_stays(node: LocalTransport, gpu: Gpu) -> None:
    """NVML's word for it becomes ours."""
    node.fault({"nvml": {"call": "nvmlDeviceSetComputeMode", "error": "NO_PERMISSION"}})
    with pytest.raises(errors.PermissionDeniedError, match="compute mode of GPU 0"):
        compute_mode.set_mode(gpu, exclusive=True)
    assert mode(node) == [0, 0]


def test_an_exclusive_gpu_takes_clients_of_its_daemon_alone(engine: Engine) -> None:
    """A client that meets no daemon is a program like any other."""
    uuid = engine.describe()["gpus"][0]["uuid"]
    engine.start_process(process(uuid, 6, mps=True))
    engine.end_process(6)
    assert not engine.holders()
    assert engine.answer("mps:1:", "nvmlInitWithFlags", [0])[0] is Code.SUCCESS
    handle = engine.answer("mps:1:", "nvmlDeviceGetHandleByIndex_v2", [0])[1][0]
    assert engine.answer("mps:1:", "nvmlDeviceSetComputeMode", [handle, 3])[0] is Code.SUCCESS
    for client in (False, True):
        with pytest.raises(faults.FaultError, match="CUDA_ERROR_DEVICE_UNAVAILABLE"):
            engine.start_process(process(uuid, 7, mps=client))
    engine.mps_begin("0", 100)
    engine.start_process(process(uuid, 7, mps=True))


def test_a_server_holds_its_gpu_from_the_first_client_until_its_daemon_ends(
    engine: Engine,
) -> None:
    """So a GPU is not reset while an MPS server stands on it, clients or not."""
    daemon = engine.mps_begin("0", 100)
    uuid = engine.describe()["gpus"][0]["uuid"]
    assert engine.reset("0")[1] is Code.SUCCESS
    engine.start_process(process(uuid, 7, mps=True))
    engine.end_process(7)
    assert engine.reset("0")[1] is Code.IN_USE
    assert [(each.pid, each.name) for each in engine.holders()] == [(100, "nvidia-cuda-mps-server")]
    engine.mps_end(daemon)
    assert engine.reset("0")[1] is Code.SUCCESS


@pytest.mark.parametrize("fault", [{"mps": "down"}, {"gpu": 0, "mps": "down"}])
def test_daemons_die_and_none_begins_until_it_is_healed(
    engine: Engine, fault: dict[str, object]
) -> None:
    """Of one GPU, or of all."""
    daemon = engine.mps_begin("0", 100)
    other = engine.mps_begin("1", 101)
    engine.fault(fault)
    assert (engine.mps_dies(daemon), engine.mps_dies(other)) == (True, "gpu" not in fault)
    with pytest.raises(faults.FaultError, match="no MPS daemon lives on GPU 0"):
        engine.mps_begin("0", 102)
    engine.heal(fault)
    assert engine.mps_begin("0", 102)
    with pytest.raises(faults.FaultError, match="no MPS daemon is down"):
        engine.heal(fault)


def test_a_boot_ends_daemons(engine: Engine) -> None:
    """Also those whose service was killed before."""
    daemon = engine.mps_begin("0", 100)
    engine.reboot()
    assert engine.mps_dies(daemon)
    engine.mps_end(daemon)


def told(commands: Commands, *lines: str) -> list[str]:
    return [commands.answer(line).strip() for line in lines]


def test_a_default_reaches_servers_that_start_after_it() -> None:
    """Those that run are told by their pid."""
    commands = Commands(100)
    assert told(commands, "get_default_active_thread_percentage") == ["100.0"]
    assert told(commands, "start_server -uid 0", "get_server_list") == ["", "101"]
    told(commands, "set_default_active_thread_percentage 25", "start_server -uid 1")
    assert told(
        commands,
        "get_active_thread_percentage 101",
        "get_active_thread_percentage 102",
        "set_active_thread_percentage 101 50",
        "get_active_thread_percentage 101",
    ) == ["100.0", "25.0", "50.0", "50.0"]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("", ""),
        ("reboot", "reboot: unknown command"),
        ("set_default_active_thread_percentage", "invalid arguments"),
        ("set_default_active_thread_percentage much", "invalid arguments"),
        ("get_active_thread_percentage 7", "invalid arguments"),
    ],
)
def test_what_is_no_command_is_said(line: str, answer: str) -> None:
    """A service that asks wrongly must not take the answer for a value."""
    assert answer in Commands(100).answer(line)
