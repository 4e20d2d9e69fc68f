"""The writing suite on simulated GPUs, as Python functions and over a true C ABI."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared.nvml import errors
from shared.nvml.driver import PynvmlDriver
from shared.nvml.errors import Code
from shared.nvml.writing import PynvmlWriter
from shared.simulation.gpu import install
from shared.simulation.gpu.local import LocalTransport
from tests.suites.mig_writing import MigWriting
from tests.support.simulated_nvml import c_library, simulated_nvml

GPUS = ({"model": "a100-80gb", "migMode": "on"}, "t4", "a100-80gb")


class TestPythonFunctions(MigWriting):
    """The form that services run on."""

    @pytest.fixture
    def node(self) -> Iterator[LocalTransport]:
        with simulated_nvml(*GPUS) as transport:
            yield transport


class TestCFunctions(MigWriting):
    """The same symbols as C functions: shows that the signatures are NVML's own."""

    @pytest.fixture
    def node(self) -> Iterator[LocalTransport]:
        with simulated_nvml(*GPUS) as transport:
            install.replace(c_library(transport))
            yield transport


def test_one_profile_may_have_two_ids_on_one_node() -> None:
    """Ids and names are read from each GPU, so each is cut by its own."""
    odd = {
        "model": "a30-24gb",
        "migMode": "on",
        "profileIds": {"1g.6gb": 15},
        "profileNames": {"1g.6gb": "1g.5gb"},
    }
    with simulated_nvml({"model": "a30-24gb", "migMode": "on"}, odd) as node:
        nvml, writer = PynvmlDriver(), PynvmlWriter()
        nvml.open()
        plain, strange = (nvml.gpu(index) for index in range(2))
        assert writer.board(plain).profile("1g.6gb").id == 14
        assert writer.board(strange).profile("1g.5gb").id == 15
        for start in range(4):
            writer.create_instance(strange, writer.board(strange).profile("1g.5gb"), start)
        assert [each.profile for each in nvml.gpu(1).mig_devices] == ["1g.5gb"] * 4
        assert list(node.describe()["writes"]) == ["1"]
        nvml.close()


def test_the_compute_instance_of_a_double_memory_slice_is_found() -> None:
    """Since Hopper it has a number of its own; the widest one is looked for, not assumed."""
    with simulated_nvml({"model": "h100-sxm-80gb", "migMode": "on"}):
        nvml, writer = PynvmlDriver(), PynvmlWriter()
        nvml.open()
        gpu = nvml.gpu(0)
        for profile in writer.board(gpu).profiles:
            made = writer.create_instance(gpu, profile, profile.starts[0])
            assert made.whole
            writer.destroy_instance(gpu, made.id)
        nvml.close()


def test_a_status_that_nobody_knows_is_unknown() -> None:
    """A newer driver may say more than this list."""
    assert errors.code(19) is Code.IN_USE
    assert errors.code(77) is Code.UNKNOWN
