"""The reading suite on simulated GPUs, reached in two ways: Python functions and a true C ABI."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shared.domain.gpu import Gpu
from shared.nvml import driver, errors, sampling, writing
from shared.nvml.errors import Code
from shared.simulation.gpu import answers, install, library
from tests.suites.nvml_reading import NvmlReading
from tests.support.simulated_nvml import c_library, simulated_nvml

GPUS = (
    {
        "model": "a100-80gb",
        "instances": [
            {"profile": "3g.40gb", "start": 4},
            {"profile": "1g.10gb+me", "start": 0},
            {"profile": "2g.20gb", "start": 2},
        ],
    },
    {"model": "a30-24gb", "migMode": "on"},
    "h200-141gb",
    "t4",
)


class TestPythonFunctions(NvmlReading):
    """The form that services run on."""

    @pytest.fixture(autouse=True)
    def hardware(self) -> Iterator[None]:
        with simulated_nvml(*GPUS):
            yield


class TestCFunctions(NvmlReading):
    """The same symbols as C functions: shows that the signatures are NVML's own."""

    @pytest.fixture(autouse=True)
    def hardware(self) -> Iterator[None]:
        with simulated_nvml(*GPUS) as transport:
            install.replace(c_library(transport))
            yield


def test_a_mig_gpu_shows_what_it_was_cut_into() -> None:
    """Profiles, places and sizes are the catalogue's; names are NVML's own."""
    with simulated_nvml(*GPUS):
        nvml = driver.PynvmlDriver()
        nvml.open()
        cut, empty, whole, turing = (nvml.gpu(index) for index in range(4))
        nvml.close()
    assert [
        (each.profile, each.start, each.size, each.memory_mib, each.multiprocessors)
        for each in cut.mig_devices
    ] == [
        ("3g.40gb", 4, 4, 40192, 42),
        ("1g.10gb+me", 0, 1, 9728, 14),
        ("2g.20gb", 2, 2, 19968, 28),
    ]
    assert (empty.mig_enabled, empty.mig_devices) == (True, ())
    assert (whole.mig_enabled, whole.memory_mib) == (False, 143771)
    assert (turing.mig_mode, turing.model, turing.compute_capability) == (None, "Tesla T4", (7, 5))


def write_everything(gpu: Gpu) -> None:
    """Take every way through the writing half once."""
    writer = writing.PynvmlWriter()
    writer.set_mig_mode(gpu, on=True)
    made = writer.create_instance(gpu, writer.board(gpu).widest, 0)
    assert writer.instances(gpu) == (made,)
    assert writer.processes(gpu) == ()
    writer.destroy_instance(gpu, made.id)


def test_every_symbol_that_the_driver_uses_is_simulated() -> None:
    """A driver that starts to use another symbol fails here, not in a rehearsal."""
    used: set[str] = set()

    class Recording:
        def __init__(self, inner: object) -> None:
            self.inner = inner

        def __getattr__(self, symbol: str) -> Any:
            used.add(symbol)
            return getattr(self.inner, symbol)

    with simulated_nvml(*GPUS) as transport:
        install.replace(Recording(library.library(transport)))
        nvml = driver.PynvmlDriver()
        nvml.open()
        watch = nvml.watch()
        for index in range(nvml.count()):
            sampling.PynvmlSampler().sample(nvml.gpu(index))
            nvml.add(watch, index)
        nvml.wait(watch, 0)
        nvml.drop(watch)
        write_everything(nvml.gpu(2))
        nvml.close()
    assert used <= set(library.SIGNATURES)
    assert set(library.SIGNATURES) == set(answers.ANSWERS)


def test_an_old_driver_is_read_without_what_it_lacks() -> None:
    """A driver without MIG and NUMA calls still shows its GPUs, as unable to do MIG."""
    with simulated_nvml("a100-80gb") as transport:
        old = library.library(transport)
        del old.nvmlDeviceGetMigMode
        del old.nvmlDeviceGetMemoryAffinity
        install.replace(old)
        nvml = driver.PynvmlDriver()
        nvml.open()
        gpu = nvml.gpu(0)
        nvml.close()
    assert (gpu.mig_mode, gpu.numa_node) == (None, None)


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ("GPU_IS_LOST", errors.LostError, "GPU_IS_LOST while reading GPU 0: the GPU has fallen"),
        ("RESET_REQUIRED", errors.ResetRequiredError, "reset the GPU"),
        ("NO_PERMISSION", errors.PermissionDeniedError, "run the service as root"),
        ("UNINITIALIZED", errors.AwayError, "open it again"),
        ("UNKNOWN", errors.NvmlError, "see the driver's log"),
    ],
)
def test_a_return_code_becomes_an_error_with_a_sentence(
    code: str, kind: type[errors.NvmlError], words: str
) -> None:
    """The sentence says what NVML answered, on which GPU, and what to do."""
    with simulated_nvml("t4") as transport:
        nvml = driver.PynvmlDriver()
        nvml.open()
        transport.fault({"nvml": {"call": "nvmlDeviceGetMemoryInfo", "error": code}})
        with pytest.raises(kind, match=words):
            nvml.gpu(0)
        assert nvml.gpu(0).model == "Tesla T4"
        nvml.close()


def test_a_machine_without_a_driver_is_told_what_to_do() -> None:
    """A missing library and a code that nobody knows are sentences too."""
    missing = errors.error_of(Code.LIBRARY_NOT_FOUND, "opening NVML")
    assert isinstance(missing, errors.AwayError)
    assert "mount the driver's libraries" in str(missing)
    assert "unknown code 555" in str(errors.error_of(555, "opening NVML"))
