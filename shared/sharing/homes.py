"""Which keys a sharing text has and where each belongs: the one table of accepted names.

The names under `flags`, `resources`, `sharing` and `imex` are those of NVIDIA's device plugin and
GPU Feature Discovery; what stands under `slicewire` is ours.
"""

from __future__ import annotations

from shared.sharing import suggest

_PATTERN = ("pattern", "name")
_STRATEGY = ("renameByDefault", "failRequestsGreaterThanOne", "resources")
_ENTRY = ("name", "replicas", "rename", "devices")

KEYS: dict[str, tuple[str, ...]] = {
    "": ("version", "flags", "resources", "sharing", "imex", "slicewire"),
    "flags": (
        "migStrategy",
        "failOnInitError",
        "mpsRoot",
        "nvidiaDriverRoot",
        "nvidiaDevRoot",
        "gdrcopyEnabled",
        "gdsEnabled",
        "mofedEnabled",
        "useNodeFeatureAPI",
        "deviceDiscoveryStrategy",
        "plugin",
        "gfd",
    ),
    "flags.plugin": (
        "passDeviceSpecs",
        "deviceListStrategy",
        "deviceIDStrategy",
        "cdiAnnotationPrefix",
        "nvidiaCTKPath",
        "containerDriverRoot",
        "sharedDevicesAllocationPolicy",
    ),
    "flags.gfd": ("oneshot", "noTimestamp", "sleepInterval", "outputFile", "machineTypeFile"),
    "resources": ("gpus", "mig"),
    "resources.gpus[]": _PATTERN,
    "resources.mig[]": _PATTERN,
    "sharing": ("timeSlicing", "mps"),
    "sharing.timeSlicing": _STRATEGY,
    "sharing.timeSlicing.resources[]": _ENTRY,
    "sharing.mps": _STRATEGY,
    "sharing.mps.resources[]": _ENTRY,
    "imex": ("channelIDs", "required"),
    "slicewire": ("allocationPolicy", "health", "vram", "injectCudaVisibleDevices"),
    "slicewire.health": ("ignore", "fatal", "recoverAfter"),
}


def hint(name: str, home: str) -> str:
    """Say what an unknown key of `home` was probably meant to be, or where it belongs."""
    known = KEYS[home]
    here = suggest.same_but_spelling(name, known)
    if here:
        return f'did you mean "{here}"?'
    for other in sorted(KEYS, key=lambda other: not other.startswith(home)):  # inside comes first
        there = suggest.same_but_spelling(name, KEYS[other])
        if there:
            return f'"{there}" belongs {_at(other)}'
    return suggest.did_you_mean(name, known)


def _at(home: str) -> str:
    if home.endswith("[]"):
        return f"into each entry of {home.removesuffix('[]')}"
    return f"under {home}" if home else "at the top of the text"
