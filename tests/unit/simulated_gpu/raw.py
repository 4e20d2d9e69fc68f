"""NVML calls as the transport carries them: symbols, numbers, codes. For rules of the driver."""

from __future__ import annotations

from typing import Any

from shared.nvml.errors import Code
from shared.simulation.gpu import boards, catalogue
from shared.simulation.gpu.engine import Engine
from shared.simulation.gpu.local import LocalTransport
from tests.support.simulated_nvml import Spec

CREATE, PLACE = "nvmlDeviceCreateGpuInstance", "nvmlDeviceCreateGpuInstanceWithPlacement"
CREATE_COMPUTE = "nvmlGpuInstanceCreateComputeInstance"
DESTROY, DESTROY_COMPUTE = "nvmlGpuInstanceDestroy", "nvmlComputeInstanceDestroy"
MODE, SET_MODE = "nvmlDeviceGetMigMode", "nvmlDeviceSetMigMode"
INIT, SHUTDOWN = "nvmlInitWithFlags", "nvmlShutdown"
HANDLE = "nvmlDeviceGetHandleByIndex_v2"


class Raw:
    """One process that has NVML open on a node, with a GPU to talk about."""

    def __init__(self, *gpus: Spec) -> None:
        self.engine = Engine("gpu-a", boards.build("gpu-a", gpus))
        self.node = LocalTransport(self.engine)
        self.open()

    def open(self) -> None:
        """Open NVML (again) and take the handle of GPU 0."""
        self.call(INIT, 0)
        _, (self.gpu,) = self.call(HANDLE, 0)

    def call(self, symbol: str, *args: int) -> tuple[Code, list[Any]]:
        code, out = self.node.call(symbol, list(args))
        return Code(code), out

    def code(self, symbol: str, *args: int) -> Code:
        return self.call(symbol, *args)[0]

    def made(self, symbol: str, *args: int) -> int:
        """A call that must succeed: the handle that it gives."""
        code, out = self.call(symbol, *args)
        assert code is Code.SUCCESS, (symbol, args, code)
        return int(out[0])

    def place(self, profile: catalogue.Profile, start: int) -> Code:
        return self.code(PLACE, self.gpu, profile.id, start, profile.size)

    def mode(self) -> tuple[int, int]:
        _, (current, pending) = self.call(MODE, self.gpu)
        return current, pending

    def starts(self) -> list[int]:
        """Where GPU 0's instances stand, in the order in which they were made."""
        return [each["start"] for each in self.node.describe()["gpus"][0]["gpuInstances"]]


def of_kinds(model: str) -> dict[str, catalogue.Profile]:
    """A model's profiles by their kind: 1g, 1g+me, 1gx2..."""
    return {profile.kind: profile for profile in catalogue.model(model).profiles}


def mig(model: str) -> dict[str, Any]:
    return {"model": model, "migMode": "on"}
