"""The reading suite on the real NVML, and the simulated GPU of the same product beside it.

Collected by name only, by `python -m tests.gpu`: its file name is none that `make test` looks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from shared.domain.gpu import Gpu, MigDevice
from shared.nvml.driver import PynvmlDriver
from shared.simulation.gpu import catalogue
from tests.suites.nvml_reading import NvmlReading
from tests.support.simulated_nvml import simulated_nvml

pytestmark = pytest.mark.gpu

SAME_ON_A_GPU = ("model", "memory_mib", "pci_device", "compute_capability", "mig_mode")
SAME_ON_A_MIG_DEVICE = (
    "profile",
    "start",
    "size",
    "memory_mib",
    "multiprocessors",
    "gpu_slices",
    "compute_slices",
)


class TestRealNvml(NvmlReading):
    """What the simulated boundary is held to, asked of the original."""


def read_all() -> list[Gpu]:
    nvml = PynvmlDriver()
    nvml.open()
    gpus = [nvml.gpu(index) for index in range(nvml.count())]
    nvml.close()
    return gpus


def as_spec(gpu: Gpu) -> Mapping[str, Any]:
    """The specification of a simulated GPU that should read as this real one does."""
    return {
        "model": catalogue.model_of_product(gpu.model).name,
        "uuid": gpu.uuid,
        "pciDevice": gpu.pci_device,
        "migMode": gpu.mig_enabled,
        "instances": [{"profile": each.profile, "start": each.start} for each in gpu.mig_devices],
    }


def differences(
    real: Gpu | MigDevice, simulated: Gpu | MigDevice, names: tuple[str, ...]
) -> list[str]:
    return [
        f"{real.uuid} {name}: real {getattr(real, name)!r}, simulated {getattr(simulated, name)!r}"
        for name in names
        if getattr(real, name) != getattr(simulated, name)
    ]


def test_the_simulated_gpu_reads_as_the_real_one() -> None:
    """Field by field, for every GPU and MIG device of this machine."""
    real = read_all()
    with simulated_nvml(*(as_spec(gpu) for gpu in real)):
        simulated = read_all()
    found = []
    for mine, theirs in zip(real, simulated, strict=True):
        found += differences(mine, theirs, SAME_ON_A_GPU)
        found += [
            line
            for device, twin in zip(mine.mig_devices, theirs.mig_devices, strict=True)
            for line in differences(device, twin, SAME_ON_A_MIG_DEVICE)
        ]
    assert not found, "\n".join(found)
