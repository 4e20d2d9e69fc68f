"""An engine in this process, without owner and socket: for `slicewire plan`, and for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from shared.simulation.gpu import answers
from shared.simulation.gpu.engine import Engine


class LocalTransport:
    """Carries calls of any thread to the engine; a waiting or delayed call keeps nobody waiting."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._changed = threading.Condition()

    def call(self, symbol: str, args: list[int]) -> tuple[int, list[Any]]:
        """Answer as the owner would."""
        with self._changed:
            if fault := self._engine.strike(symbol, args):
                if fault.code is not None:
                    return fault.code, []
                self._until(lambda: fault.healed, fault.delay_s)
            if symbol == answers.WAIT:
                self._until(lambda: self._engine.ready(symbol, args), args[1] / 1000)
            return self._engine.answer("here", symbol, args)

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

    def describe(self) -> dict[str, Any]:
        """Return what the node holds."""
        with self._changed:
            return self._engine.describe()

    def _until(self, condition: Callable[[], bool], most_s: float | None) -> None:
        self._changed.wait_for(condition, most_s)
