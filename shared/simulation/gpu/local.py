"""An engine in this process, without owner and socket: for `slicewire plan`, and for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from shared.nvml.errors import Code
from shared.simulation.gpu import answers
from shared.simulation.gpu.engine import Engine


class LocalTransport:
    """Carries calls of any thread to the engine; a waiting or delayed call keeps nobody waiting."""

    def __init__(self, engine: Engine, process: str = "here:1:") -> None:
        self._engine = engine
        self._process = process
        self._changed = threading.Condition()

    def call(self, symbol: str, args: list[int]) -> tuple[int, list[Any]]:
        """Answer as the owner would."""
        with self._changed:
            if fault := self._engine.strike(symbol, args):
                if fault.code is not None:
                    return fault.code, []
                self._until(lambda: fault.healed, fault.delay_s)
            if latency_s := self._engine.latency_s(symbol):
                self._until(lambda: False, latency_s)
            if symbol == answers.WAIT:
                self._until(lambda: self._engine.ready(symbol, args), args[1] / 1000)
            return self._engine.answer(self._process, symbol, args)

    def fault(self, fault: Mapping[str, Any]) -> None:
        """Break what the map says."""
        with self._changed:
            self._engine.fault(fault)
            self._changed.notify_all()

    def heal(self, fault: Mapping[str, Any]) -> None:
        """Mend what the same map broke."""
        with self._changed:
            self._engine.heal(fault)
            self._changed.notify_all()

    def reset(self, which: str) -> Code:
        """Reset a GPU, as nvidia-smi would."""
        with self._changed:
            return self._engine.reset(which)[1]

    def reboot(self) -> None:
        """Boot the node anew."""
        with self._changed:
            self._engine.reboot()
            self._changed.notify_all()

    def start_process(
        self,
        uuid: str,
        pid: int,
        name: str = "python",
        memory_mib: int = 0,
        sm_percent: int = 0,
    ) -> None:
        """Have a process compute on a device, for so much of the time."""
        fields = {
            "uuid": uuid,
            "pid": pid,
            "name": name,
            "memoryMiB": memory_mib,
            "sm": sm_percent,
        }
        with self._changed:
            self._engine.start_process(fields)

    def end_process(self, pid: int) -> None:
        """Have a process end."""
        with self._changed:
            self._engine.end_process(pid)

    def describe(self) -> dict[str, Any]:
        """Return what the node holds."""
        with self._changed:
            return self._engine.describe()

    def _until(self, condition: Callable[[], bool], most_s: float | None) -> None:
        self._changed.wait_for(condition, most_s)
