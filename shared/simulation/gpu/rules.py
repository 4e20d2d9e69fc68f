"""Where a MIG instance may stand, as the driver decides it. Pure: values in, a verdict out.

`boards` refuses specifications by these rules, `lifecycle` calls of NVML.
"""

from __future__ import annotations

from shared.simulation.gpu.catalogue import ComputeProfile, Layout, Profile
from shared.simulation.gpu.state import Gpu, Instance


def unfit(gpu: Gpu, profile: Profile, start: int) -> str:
    """Say why an instance cannot stand there beside the GPU's others; empty where it can."""
    kinds = [each.profile.kind for each in gpu.instances]
    if start not in profile.starts:
        return f"a {profile.name} may start at {profile.starts}, not at {start}"
    if not profile.published:
        return f"nobody published how large a {profile.name} is: it cannot be simulated"
    if any(_overlap(start, profile.size, each.start, each.profile.size) for each in gpu.instances):
        return f"a {profile.name} at {start} needs units that another instance has"
    if kinds.count(profile.kind) >= profile.most:
        return f"a {gpu.model} has room for {profile.most} of {profile.name}"
    return _exclusion(gpu.layout, [*kinds, profile.kind])


def free_start(gpu: Gpu, profile: Profile) -> int | None:
    """Return where the driver puts an instance by itself, None where there is no room."""
    return next((start for start in profile.fill if not unfit(gpu, profile, start)), None)


def room(gpu: Gpu, profile: Profile) -> int:
    """How many more instances of a profile fit beside the GPU's others."""
    standing = sum(each.profile.kind == profile.kind for each in gpu.instances)
    free = sum(not unfit(gpu, profile, start) for start in profile.starts)
    return min(free, profile.most - standing)


def gpu_instance_id(gpu: Gpu, profile: Profile, start: int) -> int:
    """Number a GPU instance as the driver's heap does: 0 full, then halves, quarters, eighths.

    Some boards have the halves swapped, even beside others on one host: every second GPU here
    is one, so that nobody can rely on the numbers.
    """
    units = gpu.layout.units if gpu.layout else profile.size
    if gpu.index % 2 == 1 and profile.size < units:
        start = (start + units // 2) % units
    return units // profile.size - 1 + start // profile.size


def free_compute_start(instance: Instance, profile: ComputeProfile) -> int | None:
    """Return the first place for a compute instance in a GPU instance, None where it is full."""
    return next((start for start in profile.starts if fits(instance, profile, start)), None)


def fits(instance: Instance, profile: ComputeProfile, start: int) -> bool:
    """Whether a compute instance may stand there beside the GPU instance's others."""
    return start in profile.starts and not any(
        _overlap(start, profile.slices, each.start, each.profile.slices)
        for each in instance.compute
    )


def compute_room(instance: Instance, profile: ComputeProfile) -> int:
    """How many more compute instances of a profile fit into a GPU instance."""
    return sum(fits(instance, profile, start) for start in profile.starts)


def _overlap(start: int, size: int, other_start: int, other_size: int) -> bool:
    return start < other_start + other_size and other_start < start + size


def _exclusion(layout: Layout | None, kinds: list[str]) -> str:
    if layout is None:
        return "the GPU cannot do MIG"
    if sum(kind in layout.at_most_one_of for kind in kinds) > 1:
        return "only one instance of a GPU may have the media extensions"
    everything = [kind for kind in kinds if kind in layout.all_media]
    rest = [kind for kind in kinds if kind not in layout.all_media]
    if everything and (len(everything) > 1 or not layout.beside_all_media.issuperset(rest)):
        return "an instance with all media engines leaves none: the others must be -me"
    return ""
