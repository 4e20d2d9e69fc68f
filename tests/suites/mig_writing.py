"""What every NVML must do when MIG is changed, seen through the product's writing half.

It destroys what stands on the GPUs, so it is asked of the simulated NVML only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from shared.domain.gpu import Gpu, MigMode
from shared.geometry.board import Instance, ordered
from shared.nvml import errors
from shared.nvml.driver import PynvmlDriver
from shared.nvml.errors import Code
from shared.nvml.writing import PynvmlWriter
from shared.simulation.gpu.local import LocalTransport

ON, OFF = MigMode(current=True, pending=True), MigMode(current=False, pending=False)


class MigWriting:
    """Inherit, and give a `node` whose GPU 0 is an A100 in MIG mode, GPU 1 a T4, GPU 2 an A100."""

    @pytest.fixture
    def nvml(self, node: LocalTransport) -> Iterator[PynvmlDriver]:
        driver = PynvmlDriver()
        driver.open()
        yield driver
        driver.close()

    @pytest.fixture
    def writer(self) -> PynvmlWriter:
        return PynvmlWriter()

    @pytest.fixture
    def gpu(self, nvml: PynvmlDriver) -> Gpu:
        return nvml.gpu(0)

    def test_a_board_is_what_nvml_says(self, writer: PynvmlWriter, gpu: Gpu) -> None:
        """Names, ids, places and sizes are the driver's own, and the GPU's."""
        board = writer.board(gpu)
        three = board.profile("3g.40gb")
        assert (board.memory_mib, board.units) == (gpu.memory_mib, 8)
        assert (three.id, three.slices, three.size, three.starts, three.most) == (
            9,
            3,
            4,
            (0, 4),
            2,
        )
        assert (three.memory_mib, three.multiprocessors) == (40192, 42)
        assert len(board.profiles) == 7

    def test_a_board_is_read_in_any_mode(self, writer: PynvmlWriter, nvml: PynvmlDriver) -> None:
        """A plan is made before the mode is switched on; a T4 has no board."""
        assert writer.board(nvml.gpu(2)) == writer.board(nvml.gpu(0))
        with pytest.raises(errors.NotSupportedError, match=r"GPU 1 \(Tesla T4\) cannot do MIG"):
            writer.board(nvml.gpu(1))

    def test_an_instance_is_made_where_it_is_wanted(
        self, writer: PynvmlWriter, nvml: PynvmlDriver, gpu: Gpu
    ) -> None:
        """What is returned is what a look shows, as one MIG device with all of it."""
        board = writer.board(gpu)
        made = writer.create_instance(gpu, board.profile("2g.20gb"), 2)
        assert writer.instances(gpu) == (made,)
        (device,) = nvml.gpu(0).mig_devices
        assert made.whole
        assert made.devices == (device.uuid,)
        assert (device.gpu_instance, device.profile, device.start) == (made.id, "2g.20gb", 2)

    def test_making_and_destroying_are_two_writes_each(
        self, writer: PynvmlWriter, node: LocalTransport, gpu: Gpu
    ) -> None:
        """A GPU instance and a compute instance, on this GPU and on no other."""
        made = writer.create_instance(gpu, writer.board(gpu).profile("1g.10gb"), 0)
        assert node.describe()["writes"] == {
            "0": {
                "nvmlDeviceCreateGpuInstanceWithPlacement": 1,
                "nvmlGpuInstanceCreateComputeInstance": 1,
            }
        }
        writer.destroy_instance(gpu, made.id)
        assert sum(node.describe()["writes"]["0"].values()) == 4

    def test_instances_are_listed_by_place(self, writer: PynvmlWriter, gpu: Gpu) -> None:
        """In whatever order they were made."""
        board = writer.board(gpu)
        layout = ordered([Instance("3g.40gb", 4), Instance("1g.10gb", 1), Instance("1g.10gb", 0)])
        for instance in reversed(layout):
            writer.create_instance(gpu, board.profile(instance.profile), instance.start)
        assert [(each.profile, each.start) for each in writer.instances(gpu)] == list(layout)

    def test_a_place_that_is_taken_is_refused(self, writer: PynvmlWriter, gpu: Gpu) -> None:
        """The error says what was tried and where; what stands there stays."""
        board = writer.board(gpu)
        made = writer.create_instance(gpu, board.profile("3g.40gb"), 0)
        with pytest.raises(errors.NoRoomError, match=r"making a 1g.10gb at 3 on GPU 0: another"):
            writer.create_instance(gpu, board.profile("1g.10gb"), 3)
        assert writer.instances(gpu) == (made,)

    def test_a_remade_instance_is_another_one(self, writer: PynvmlWriter, gpu: Gpu) -> None:
        """The same place gets a new UUID, so nobody can take one for the other."""
        profile = writer.board(gpu).profile("1g.10gb")
        uuids: set[str] = set()
        for _ in range(3):
            made = writer.create_instance(gpu, profile, 0)
            uuids.update(made.devices)
            writer.destroy_instance(gpu, made.id)
        assert len(uuids) == 3

    def test_an_instance_in_use_is_not_destroyed(
        self, writer: PynvmlWriter, node: LocalTransport, gpu: Gpu
    ) -> None:
        """Its process is listed with it; when that has ended, the instance can go."""
        made = writer.create_instance(gpu, writer.board(gpu).profile("1g.10gb"), 0)
        node.start_process(made.devices[0], 4711, "python", 512)
        (process,) = writer.processes(gpu)
        assert (process.pid, process.memory_mib, process.gpu_instance) == (4711, 512, made.id)
        with pytest.raises(errors.InUseError, match=f"destroying instance {made.id} of GPU 0"):
            writer.destroy_instance(gpu, made.id)
        assert writer.instances(gpu) == (made,)
        node.end_process(4711)
        writer.destroy_instance(gpu, made.id)
        assert writer.instances(gpu) == ()

    def test_an_instance_without_compute_is_seen_and_destroyed(
        self, writer: PynvmlWriter, node: LocalTransport, nvml: PynvmlDriver, gpu: Gpu
    ) -> None:
        """What a crash between the two writes leaves takes place, and is no MIG device."""
        compute = "nvmlGpuInstanceCreateComputeInstance"
        broken = {"nvml": {"call": compute, "error": "UNKNOWN", "times": "all"}}
        stuck = {"nvml": {"call": "nvmlGpuInstanceDestroy", "error": "UNKNOWN"}}
        node.fault(broken)
        node.fault(stuck)
        with pytest.raises(errors.NvmlError, match=r"UNKNOWN while making a 1g.10gb"):
            writer.create_instance(gpu, writer.board(gpu).profile("1g.10gb"), 5)
        (left,) = writer.instances(gpu)
        assert (left.start, left.devices, left.whole) == (5, (), False)
        assert nvml.gpu(0).mig_devices == ()
        writer.destroy_instance(gpu, left.id)
        assert writer.instances(gpu) == ()

    def test_a_part_of_an_instance_is_seen_and_handed_to_nobody(
        self, writer: PynvmlWriter, node: LocalTransport, nvml: PynvmlDriver, gpu: Gpu
    ) -> None:
        """A compute instance narrower than its GPU instance takes its place, no more."""
        half, first_width = 9, 0
        _, (handle,) = node.call("nvmlDeviceGetHandleByIndex_v2", [0])
        _, (instance,) = node.call("nvmlDeviceCreateGpuInstance", [handle, half])
        node.call("nvmlGpuInstanceCreateComputeInstance", [instance, first_width])
        (seen,) = writer.instances(gpu)
        assert (seen.profile, seen.whole, len(seen.devices)) == ("3g.40gb", False, 1)
        assert nvml.gpu(0).mig_devices == ()
        writer.destroy_instance(gpu, seen.id)
        assert writer.instances(gpu) == ()

    def test_a_failed_making_leaves_nothing(
        self, writer: PynvmlWriter, node: LocalTransport, gpu: Gpu
    ) -> None:
        """The GPU instance whose compute instance was refused is taken away again."""
        compute = "nvmlGpuInstanceCreateComputeInstance"
        node.fault({"nvml": {"call": compute, "error": "INSUFFICIENT_RESOURCES"}})
        with pytest.raises(errors.NoRoomError):
            writer.create_instance(gpu, writer.board(gpu).profile("1g.10gb"), 5)
        assert writer.instances(gpu) == ()

    def test_what_is_not_there_cannot_be_destroyed(self, writer: PynvmlWriter, gpu: Gpu) -> None:
        """The sentence names the instance."""
        with pytest.raises(errors.NotFoundError, match="destroying instance 3 of GPU 0"):
            writer.destroy_instance(gpu, 3)

    def test_the_mode_is_switched_on_and_off(
        self, writer: PynvmlWriter, nvml: PynvmlDriver
    ) -> None:
        """Idle, and with nobody else on the GPU, the driver resets it by itself."""
        gpu = nvml.gpu(2)
        switched = writer.set_mig_mode(gpu, on=True)
        assert (switched.in_force, switched.mode, switched.status) == (True, ON, Code.SUCCESS)
        assert nvml.gpu(2).mig_mode == ON
        assert writer.set_mig_mode(gpu, on=False).mode == OFF

    def test_a_client_keeps_the_mode_pending(
        self, writer: PynvmlWriter, node: LocalTransport, nvml: PynvmlDriver
    ) -> None:
        """The call succeeds: only its status, and a look, say that nothing changed."""
        node.fault({"clients": [{"gpu": 2, "name": "dcgm", "pid": 99}]})
        switched = writer.set_mig_mode(nvml.gpu(2), on=True)
        assert (switched.in_force, switched.status) == (False, Code.IN_USE)
        assert nvml.gpu(2).mig_mode == MigMode(current=False, pending=True)

    def test_a_gpu_without_mig_has_no_mode(self, writer: PynvmlWriter, nvml: PynvmlDriver) -> None:
        """The sentence names the GPU."""
        with pytest.raises(errors.NotSupportedError, match="switching MIG mode of GPU 1 on"):
            writer.set_mig_mode(nvml.gpu(1), on=True)

    def test_no_mode_no_instances(self, writer: PynvmlWriter, nvml: PynvmlDriver) -> None:
        """Reading finds none, making is refused."""
        gpu = nvml.gpu(2)
        assert writer.instances(gpu) == ()
        with pytest.raises(errors.NotSupportedError, match=r"making a 1g.10gb at 0 on GPU 2"):
            writer.create_instance(gpu, writer.board(gpu).profile("1g.10gb"), 0)

    def test_another_gpu_at_the_index_is_not_touched(
        self, writer: PynvmlWriter, node: LocalTransport, nvml: PynvmlDriver, gpu: Gpu
    ) -> None:
        """A look that is too old changes nothing."""
        old = dataclasses.replace(nvml.gpu(2), index=0)
        with pytest.raises(errors.NotFoundError, match="has index 0 by now: look at the GPUs"):
            writer.set_mig_mode(old, on=False)
        assert node.describe()["writes"] == {}
