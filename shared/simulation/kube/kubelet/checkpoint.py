"""The kubelet's own checkpoint: holdings and resource names, which outlive a restart.

It lies among the plugins' sockets as kubelet_internal_checkpoint, with the real one's field names.
Anything it can't read it takes for empty, as the real one does.
"""

from __future__ import annotations

import json
import logging
import pathlib
from typing import Any, Final

from shared.simulation.kube.kubelet import device_manager

FILE_NAME: Final = "kubelet_internal_checkpoint"

_log = logging.getLogger(__name__)


def encode(manager: device_manager.DeviceManager) -> str:
    """Write down holdings and resource names."""
    entries = [
        {
            "PodUID": place.pod_uid,
            "ContainerName": place.container,
            "ResourceName": resource,
            "DeviceIDs": sorted(ids),
        }
        for (place, resource), ids in manager.held().items()
    ]
    names = sorted(manager.resources())
    return json.dumps({"Data": {"PodDeviceEntries": entries, "RegisteredDevices": names}})


def decode(text: str, manager: device_manager.DeviceManager, now: float) -> None:
    """Restore a manager from what `encode` wrote."""
    data: dict[str, Any] = json.loads(text)["Data"]
    held = {
        (
            device_manager.Place(entry["PodUID"], entry["ContainerName"]),
            str(entry["ResourceName"]),
        ): tuple(entry["DeviceIDs"])
        for entry in data["PodDeviceEntries"]
    }
    manager.restore(held, data["RegisteredDevices"], now)


def load(folder: pathlib.Path, manager: device_manager.DeviceManager, now: float) -> None:
    """Restore a manager from the folder's checkpoint, if it has one."""
    try:
        decode((folder / FILE_NAME).read_text(), manager, now)
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError) as error:
        _log.warning("the kubelet's checkpoint in %s is taken for empty: %s", folder, error)


def save(folder: pathlib.Path, text: str) -> None:
    """Replace the folder's checkpoint."""
    fresh = folder / f".{FILE_NAME}"
    fresh.write_text(text)
    fresh.replace(folder / FILE_NAME)
