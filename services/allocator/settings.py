"""Settings of the allocator: flags and SLICEWIRE_* variables (shared/runtime/settings.py)."""

from __future__ import annotations

import pathlib

from pydantic import Field

from shared.bus import settings
from shared.contract import mps
from shared.runtime import boot


class AllocatorSettings(settings.NodeBusSettings):
    """Serve this node's slots to the kubelet and keep the ledger of who holds them."""

    node_name: str = Field(min_length=1, description="name of this node in Kubernetes")
    run_dir: pathlib.Path = Field(
        default=pathlib.Path("/run/slicewire"), description="folder of locks and inventory.json"
    )
    state_dir: pathlib.Path = Field(
        default=pathlib.Path("/var/lib/slicewire"), description="folder of the ledger's checkpoint"
    )
    device_plugins_dir: pathlib.Path = Field(
        default=pathlib.Path("/var/lib/kubelet/device-plugins"),
        description="the kubelet's folder of plugin sockets",
    )
    pod_resources_socket: pathlib.Path = Field(
        default=pathlib.Path("/var/lib/kubelet/pod-resources/kubelet.sock"),
        description="the kubelet's socket that tells who holds what",
    )
    dev_root: str = Field(default="", description="what stands before /dev on the host")
    dev_stand_in: str = Field(
        default="", description="host device given out for every GPU device, for simulated GPUs"
    )
    mps_dir: str = Field(
        default="/run/slicewire/mps", description="folder of the MPS service on the host"
    )
    list_period_s: float = Field(
        default=2.0, gt=0, description="seconds between two questions who holds what"
    )
    boot_id_path: str = Field(default=boot.KERNEL_BOOT_ID, description="file with the boot id")

    def on_host(self, path: str) -> str:
        """Where the host has what stands under this path in containers."""
        if path.startswith(f"{mps.ROOT}/"):
            return self.mps_dir + path.removeprefix(mps.ROOT)
        return self.dev_stand_in or self.dev_root + path
