"""A service as a process: its meters, its health port, its logs. Each `__main__` calls `run`."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from typing import Any

from shared.contract.table import Role
from shared.runtime import logs, service, settings
from shared.telemetry import meters, setup


def run(
    serve: Callable[[meters.Meters], Coroutine[Any, Any, None]],
    role: Role,
    loaded: settings.ServiceSettings,
    node: str = "",
) -> int:
    """Serve until stopped; return the process's exit status. `node` is empty for no node's own."""
    logs.set_up(role.value, node, loaded.log_level)
    measured = setup.service_meters(role, node, os.environ, exposed=loaded.exposed)
    return service.run(
        lambda: serve(measured),
        role.value,
        loaded.health_port,
        measured.pages,
        node=node,
        log_level=loaded.log_level,
    )
