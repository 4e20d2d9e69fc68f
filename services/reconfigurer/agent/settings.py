"""Settings of the agent: flags and SLICEWIRE_* variables (shared/runtime/settings.py)."""

from __future__ import annotations

import pathlib

from pydantic import Field

from shared.bus import settings
from shared.runtime import boot


class AgentSettings(settings.NodeBusSettings):
    """Bring this node's GPUs to the wanted geometry."""

    node_name: str = Field(min_length=1, description="name of this node in Kubernetes")
    run_dir: pathlib.Path = Field(
        default=pathlib.Path("/run/slicewire"), description="folder of locks"
    )
    state_dir: pathlib.Path = Field(
        default=pathlib.Path("/var/lib/slicewire"), description="folder of the journal"
    )
    proc_root: pathlib.Path = Field(
        default=pathlib.Path("/proc"), description="where the host's /proc is mounted"
    )
    boot_id_path: str = Field(default=boot.KERNEL_BOOT_ID, description="file with the boot id")
    write_deadline_s: float = Field(
        default=60.0, gt=0, description="seconds after which a GPU that does not answer is silent"
    )
    hold_limit_s: float = Field(
        default=1800.0,
        gt=0,
        description="seconds after which slots that stay in use are given up; five minutes more"
        " than the controller waits, if that is later",
    )
    retry_first_s: float = Field(
        default=30.0, gt=0, description="seconds before a layout that failed is tried again"
    )
    retry_most_s: float = Field(
        default=600.0, gt=0, description="the most seconds that this grows to"
    )
    reboot_command: str = Field(
        default="chroot /host systemctl reboot",
        description="boots the node, where the policy allows it",
    )
    reboot_grace_s: float = Field(
        default=10.0, ge=0, description="seconds for the controller to store that the node boots"
    )
