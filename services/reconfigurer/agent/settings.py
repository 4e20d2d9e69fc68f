"""Settings of the agent: flags and SLICEWIRE_* variables (shared/runtime/settings.py)."""

from __future__ import annotations

import pathlib

from pydantic import Field

from shared.runtime import settings


class AgentSettings(settings.Settings):
    """Bring this node's GPUs to the wanted geometry."""

    node_name: str = Field(min_length=1, description="name of this node in Kubernetes")
    run_dir: pathlib.Path = Field(
        default=pathlib.Path("/run/slicewire"), description="folder of locks"
    )
    bus_url: str = Field(default="nats://127.0.0.1:4222", description="address of NATS")
    bus_user: str = Field(default="", description="user name on the bus")
    bus_password_file: pathlib.Path | None = Field(
        default=None, description="file that holds the user's password"
    )
