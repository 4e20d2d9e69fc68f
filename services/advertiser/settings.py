"""Settings of the advertiser: flags and SLICEWIRE_* variables (shared/runtime/settings.py)."""

from __future__ import annotations

import pathlib

from pydantic import Field

from shared.bus import settings
from shared.runtime import boot


class AdvertiserSettings(settings.NodeBusSettings):
    """Look at this node's GPUs and publish what they are to offer."""

    node_name: str = Field(min_length=1, description="name of this node in Kubernetes")
    run_dir: pathlib.Path = Field(
        default=pathlib.Path("/run/slicewire"), description="folder of locks and inventory.json"
    )
    state_dir: pathlib.Path = Field(
        default=pathlib.Path("/var/lib/slicewire"),
        description="folder of a copy of inventory.json, which outlives a boot",
    )
    look_period_s: float = Field(
        default=0.5, gt=0, description="seconds between two looks at the hardware"
    )
    call_deadline_s: float = Field(
        default=5.0, gt=0, description="seconds after which a GPU that does not answer is silent"
    )
    proc_root: pathlib.Path = Field(
        default=pathlib.Path("/proc"), description="where the host's /proc is mounted"
    )
    usage_period_s: float = Field(
        default=5.0,
        ge=0,
        description="seconds between two looks at who uses the GPUs; 0: nobody looks",
    )
    log_links: pathlib.Path = Field(
        default=pathlib.Path("/var/log/containers"),
        description="the kubelet's links of logs, whose names say which pod a process belongs to",
    )
    boot_id_path: str = Field(default=boot.KERNEL_BOOT_ID, description="file with the boot id")
