"""The simulated driver's MIG as a state machine: whatever is called, in whatever order."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from shared.nvml.errors import Code
from shared.simulation.gpu import boards, catalogue
from shared.simulation.gpu.engine import Engine
from shared.simulation.gpu.local import LocalTransport

MODELS = ("a100-80gb", "a30-24gb", "h100-sxm-80gb", "rtx-pro-6000-blackwell-96gb")
PLACED = "nvmlDeviceCreateGpuInstanceWithPlacement"
CODES = (Code.SUCCESS, Code.INSUFFICIENT_RESOURCES)


class MigMachine(RuleBasedStateMachine):
    """`instances` are the GPU instances that were made and not destroyed, by handle.

    Each knows its GPU, profile and start, and its compute instances by handle, with their
    processes. The machine keeps its own account and compares it with what the driver tells.
    """

    def __init__(self) -> None:
        super().__init__()
        specs: list[dict[str, Any]] = [{"model": name, "migMode": "on"} for name in MODELS]
        self.node = LocalTransport(Engine("gpu-a", boards.build("gpu-a", specs)))
        self.instances: dict[int, tuple[int, catalogue.Profile, int]] = {}
        self.computes: dict[int, int] = {}  # compute instance -> its GPU instance
        self.busy: dict[int, int] = {}  # compute instance -> the process on it
        self.uuids: set[str] = set()
        self.pids = 100
        self.handles = self.open()

    def open(self) -> list[int]:
        self.node.call("nvmlInitWithFlags", [0])
        places = range(len(MODELS))
        return [self.call("nvmlDeviceGetHandleByIndex_v2", index)[1][0] for index in places]

    def call(self, symbol: str, *args: int) -> tuple[Code, list[Any]]:
        code, out = self.node.call(symbol, list(args))
        return Code(code), out

    def devices(self, gpu: int) -> list[dict[str, Any]]:
        return list(self.node.describe()["gpus"][gpu]["instances"])

    def pick(self, data: st.DataObject, handles: dict[int, Any]) -> int:
        return data.draw(st.sampled_from(sorted(handles)))

    @rule(gpu=st.integers(0, len(MODELS) - 1), data=st.data(), placed=st.booleans())
    def create(self, gpu: int, data: st.DataObject, placed: bool) -> None:
        profile = data.draw(st.sampled_from(catalogue.model(MODELS[gpu]).profiles))
        where = [data.draw(st.sampled_from(profile.starts)), profile.size] if placed else []
        symbol = PLACED if placed else "nvmlDeviceCreateGpuInstance"
        code, out = self.call(symbol, self.handles[gpu], profile.id, *where)
        assert code in CODES
        if code is Code.SUCCESS:
            assert out[0] not in self.instances
            _, (info,) = self.call("nvmlGpuInstanceGetInfo", out[0])
            self.instances[out[0]] = (gpu, profile, info["placement"]["start"])

    @precondition(lambda self: self.instances)
    @rule(data=st.data())
    def create_compute(self, data: st.DataObject) -> None:
        instance = self.pick(data, self.instances)
        gpu, profile, _ = self.instances[instance]
        part = data.draw(st.sampled_from(profile.compute))
        before = {each["uuid"] for each in self.devices(gpu)}
        code, out = self.call("nvmlGpuInstanceCreateComputeInstance", instance, part.number)
        assert code in CODES
        if code is Code.SUCCESS:
            self.computes[out[0]] = instance
            (made,) = {each["uuid"] for each in self.devices(gpu)} - before
            assert made not in self.uuids, "a UUID came back"
            self.uuids.add(made)

    @precondition(lambda self: self.computes)
    @rule(data=st.data())
    def run_a_process(self, data: st.DataObject) -> None:
        compute = self.pick(data, self.computes)
        if compute in self.busy:
            return
        gpu, _, _ = self.instances[self.computes[compute]]
        _, (info,) = self.call("nvmlComputeInstanceGetInfo_v2", compute)
        _, (owner,) = self.call("nvmlGpuInstanceGetInfo", self.computes[compute])
        ids = owner["id"], info["id"]
        uuid = next(
            each["uuid"]
            for each in self.devices(gpu)
            if (each["gpuInstance"], each["computeInstance"]) == ids
        )
        self.pids += 1
        self.node.start_process(uuid, self.pids)
        self.busy[compute] = self.pids

    @precondition(lambda self: self.busy)
    @rule(data=st.data())
    def end_a_process(self, data: st.DataObject) -> None:
        self.node.end_process(self.busy.pop(self.pick(data, self.busy)))

    @precondition(lambda self: self.computes)
    @rule(data=st.data())
    def destroy_compute(self, data: st.DataObject) -> None:
        compute = self.pick(data, self.computes)
        code, _ = self.call("nvmlComputeInstanceDestroy", compute)
        assert code is (Code.IN_USE if compute in self.busy else Code.SUCCESS)
        if code is Code.SUCCESS:
            del self.computes[compute]

    @precondition(lambda self: self.instances)
    @rule(data=st.data())
    def destroy(self, data: st.DataObject) -> None:
        instance = self.pick(data, self.instances)
        code, _ = self.call("nvmlGpuInstanceDestroy", instance)
        occupied = instance in self.computes.values()
        assert code is (Code.IN_USE if occupied else Code.SUCCESS)
        if code is Code.SUCCESS:
            del self.instances[instance]

    @rule(gpu=st.integers(0, len(MODELS) - 1))
    def reset(self, gpu: int) -> None:
        running = any(self.instances[self.computes[each]][0] == gpu for each in self.busy)
        self.call("nvmlShutdown")
        code = self.node.reset(str(gpu))
        assert code is (Code.IN_USE if running else Code.SUCCESS)
        self.handles = self.open()
        if code is Code.SUCCESS:
            self.forget(lambda place: place == gpu)

    @rule()
    def reboot(self) -> None:
        self.node.reboot()
        self.handles = self.open()
        self.forget(lambda _: True)
        self.busy.clear()
        for handle in self.handles:
            assert self.call("nvmlDeviceSetMigMode", handle, 1) == (Code.SUCCESS, [Code.SUCCESS])

    def forget(self, gone: Any) -> None:
        dead = {handle for handle, (gpu, _, _) in self.instances.items() if gone(gpu)}
        self.computes = {each: owner for each, owner in self.computes.items() if owner not in dead}
        self.instances = {each: what for each, what in self.instances.items() if each not in dead}

    @invariant()
    def the_driver_tells_what_was_made(self) -> None:
        told = [
            (gpu["index"], each["profile"], each["start"])
            for gpu in self.node.describe()["gpus"]
            for each in gpu["gpuInstances"]
        ]
        made = [(gpu, profile.name, start) for gpu, profile, start in self.instances.values()]
        assert sorted(told) == sorted(made)

    @invariant()
    def no_two_instances_overlap(self) -> None:
        for gpu in self.node.describe()["gpus"]:
            units = [
                unit
                for each in gpu["gpuInstances"]
                for unit in range(each["start"], each["start"] + each["size"])
            ]
            assert len(units) == len(set(units))
            layout = catalogue.model(gpu["model"]).layout
            assert layout is not None
            assert set(units) <= set(range(layout.units))

    @invariant()
    def ids_indexes_and_uuids_are_each_ones_own(self) -> None:
        for gpu in self.node.describe()["gpus"]:
            ids = [each["gpuInstance"] for each in gpu["gpuInstances"]]
            places = [(each["gpuInstance"], each["computeInstance"]) for each in gpu["instances"]]
            for names in (ids, places, [each["index"] for each in gpu["instances"]]):
                assert len(names) == len(set(names))

    @invariant()
    def the_tables_are_kept(self) -> None:
        for index, name in enumerate(MODELS):
            for profile in catalogue.model(name).profiles:
                mine = [each for each in self.instances.values() if each[:2] == (index, profile)]
                assert len(mine) <= profile.most
                assert all(start in profile.starts for _, _, start in mine)


TestMig = MigMachine.TestCase
