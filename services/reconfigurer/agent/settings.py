"""Settings of the agent: flags and SLICEWIRE_* variables (shared/runtime/settings.py)."""

from __future__ import annotations

import pathlib

from pydantic import Field

from shared.bus import settings


class AgentSettings(settings.NodeBusSettings):
    """Bring this node's GPUs to the wanted geometry."""

    node_name: str = Field(min_length=1, description="name of this node in Kubernetes")
    run_dir: pathlib.Path = Field(
        default=pathlib.Path("/run/slicewire"), description="folder of locks"
    )
