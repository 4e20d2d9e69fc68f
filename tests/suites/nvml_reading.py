"""What every NVML must answer to a reader.

The simulated one is asked in `make test`, a real one in `make gpu`. Only read calls and event
sets: nothing here changes a GPU, its mode or its instances.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from shared.domain.gpu import Gpu
from shared.nvml import driver, errors, sampling
from shared.nvml.port import Versions

UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


class NvmlReading:
    """Inherit, and have pynvml see at least one GPU."""

    @pytest.fixture
    def versions_and_driver(self) -> Iterator[tuple[Versions, driver.PynvmlDriver]]:
        nvml = driver.PynvmlDriver()
        yield nvml.open(), nvml
        nvml.close()

    @pytest.fixture
    def nvml(
        self, versions_and_driver: tuple[Versions, driver.PynvmlDriver]
    ) -> driver.PynvmlDriver:
        return versions_and_driver[1]

    @pytest.fixture
    def gpus(self, nvml: driver.PynvmlDriver) -> list[Gpu]:
        return [nvml.gpu(index) for index in range(nvml.count())]

    def test_the_driver_says_its_versions(
        self, versions_and_driver: tuple[Versions, driver.PynvmlDriver]
    ) -> None:
        """Driver and CUDA versions have the forms that labels are made of."""
        versions, _ = versions_and_driver
        assert re.fullmatch(r"\d+\.\d+(\.\d+)?", versions.driver)
        assert versions.cuda >= (11, 0)

    def test_every_gpu_is_read_whole(self, gpus: list[Gpu]) -> None:
        """Each listed GPU has an index, a UUID, a name, memory, a bus id and a capability."""
        assert gpus
        for index, gpu in enumerate(gpus):
            assert gpu.index == index
            assert re.fullmatch(f"GPU-{UUID}", gpu.uuid)
            assert gpu.model
            assert gpu.minor >= 0
            assert gpu.memory_mib > 1024
            assert re.fullmatch(r"[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7]", gpu.pci_bus_id)
            assert gpu.pci_device & 0xFFFF == 0x10DE
            assert gpu.compute_capability >= (3, 5)
            assert gpu.numa_node is None or gpu.numa_node >= 0

    def test_gpus_are_told_apart(self, gpus: list[Gpu]) -> None:
        """No two GPUs share a UUID, a minor number or a bus id."""
        for name in ("uuid", "minor", "pci_bus_id"):
            assert len({getattr(gpu, name) for gpu in gpus}) == len(gpus)

    def test_mig_devices_are_read_whole(self, gpus: list[Gpu]) -> None:
        """Each MIG device names its profile, its place and its share; none stands in another's."""
        for gpu in gpus:
            assert gpu.mig_enabled or not gpu.mig_devices
            units = [
                unit
                for device in gpu.mig_devices
                for unit in range(device.start, device.start + device.size)
            ]
            assert len(units) == len(set(units))
            for device in gpu.mig_devices:
                assert re.fullmatch(f"MIG-{UUID}", device.uuid)
                assert re.fullmatch(r"\d+g\.\d+gb([+-][a-z.]+)?", device.profile)
                assert 0 < device.memory_mib < gpu.memory_mib
                assert device.multiprocessors > 0
                assert device.gpu_slices == device.compute_slices > 0

    def test_two_looks_give_equal_values(self, nvml: driver.PynvmlDriver, gpus: list[Gpu]) -> None:
        """Hardware that did not change reads the same, also through another opening."""
        assert [nvml.gpu(gpu.index) for gpu in gpus] == gpus
        other = driver.PynvmlDriver()
        other.open()
        assert [other.gpu(gpu.index) for gpu in gpus] == gpus
        other.close()

    def test_use_is_read_within_its_bounds(self, gpus: list[Gpu]) -> None:
        """Of each GPU first, then of its MIG devices; what is said can be, the rest is None."""
        sampler = sampling.PynvmlSampler()
        for gpu in gpus:
            for _ in range(2):  # the second asks only for what is new
                whole, *parts = sampler.sample(gpu)
                assert whole.uuid == gpu.uuid
                assert {each.uuid for each in parts} >= {each.uuid for each in gpu.mig_devices}
                for each in (whole, *parts):
                    assert each.gpu_uuid == gpu.uuid
                    assert 0 <= each.used_mib <= each.memory_mib
                    assert each.sm_percent is None or 0 <= each.sm_percent <= 100
                    pids = [process.pid for process in each.processes]
                    assert len(pids) == len(set(pids))
                    for process in each.processes:
                        assert process.memory_mib is None or process.memory_mib >= 0
                        assert process.sm_percent is None or 0 <= process.sm_percent <= 100

    def test_waiting_without_an_event_ends_in_time(
        self, nvml: driver.PynvmlDriver, gpus: list[Gpu]
    ) -> None:
        """An event set registered for every GPU waits as long as asked and reports nothing."""
        watch = nvml.watch()
        for gpu in gpus:
            nvml.add(watch, gpu.index)
        assert nvml.wait(watch, 0.1) is None
        nvml.drop(watch)

    def test_an_index_beyond_the_last_is_refused(self, nvml: driver.PynvmlDriver) -> None:
        """A GPU that is not listed is an error with a sentence, not a crash."""
        with pytest.raises(errors.NvmlError, match=r"INVALID_ARGUMENT while reading GPU"):
            nvml.gpu(nvml.count())

    def test_a_closed_driver_says_that_it_is_closed(self) -> None:
        """Calls before opening say that NVML must be opened."""
        nvml = driver.PynvmlDriver()
        nvml.open()
        nvml.close()
        with pytest.raises(errors.AwayError, match="UNINITIALIZED while counting the GPUs"):
            nvml.count()
