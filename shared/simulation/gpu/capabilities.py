"""The numbers of the device nodes that guard MIG instances, as the driver lists them. Pure.

The driver gives every instance that could ever be its number beforehand, so its list never
changes; `proc` writes it where a container's device nodes are looked up.
"""

from __future__ import annotations

INSTANCES = 15  # ids of GPU instances: 0 to 14
COMPUTE_INSTANCES = 8
_FIRST = 3  # 1 and 2 guard the making and the watching of instances
_PER_INSTANCE = 1 + COMPUTE_INSTANCES


def minor(gpu: int, instance: int, compute: int | None = None) -> int:
    """Return the minor number of /dev/nvidia-caps/nvidia-cap<minor> of an instance of GPU `gpu`."""
    place = gpu * INSTANCES + instance
    return _FIRST + place * _PER_INSTANCE + (0 if compute is None else 1 + compute)


def listing(gpus: int) -> str:
    """Write the list as /proc/driver/nvidia-caps/mig-minors has it."""
    lines = ["config 1", "monitor 2"]
    for gpu in range(gpus):
        for instance in range(INSTANCES):
            name = f"gpu{gpu}/gi{instance}"
            lines.append(f"{name}/access {minor(gpu, instance)}")
            lines += [
                f"{name}/ci{compute}/access {minor(gpu, instance, compute)}"
                for compute in range(COMPUTE_INSTANCES)
            ]
    return "\n".join(lines) + "\n"
