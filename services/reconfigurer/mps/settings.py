"""Settings of the MPS service: flags and SLICEWIRE_* variables (shared/runtime/settings.py)."""

from __future__ import annotations

import pathlib

from pydantic import Field

from shared.contract import mps
from shared.runtime import boot, settings


class MpsSettings(settings.ProcessSettings):
    """Keep an MPS control daemon for each of this node's GPUs that is shared by MPS."""

    node_name: str = Field(min_length=1, description="name of this node in Kubernetes")
    run_dir: pathlib.Path = Field(
        default=pathlib.Path("/run/slicewire"), description="folder of inventory.json and mps.json"
    )
    mps_dir: pathlib.Path = Field(
        default=pathlib.Path(mps.ROOT),
        description="folder of the daemons; clients have it under the same path",
    )
    shared_memory_mib: int = Field(
        default=0,
        ge=0,
        description="size of a tmpfs for daemons and clients, in place of /dev/shm; 0: none",
    )
    look_period_s: float = Field(
        default=0.3, gt=0, description="seconds between two looks at what is wanted"
    )
    probe_period_s: float = Field(
        default=5.0, gt=0, description="seconds between two questions to a daemon"
    )
    boot_id_path: str = Field(default=boot.KERNEL_BOOT_ID, description="file with the boot id")
