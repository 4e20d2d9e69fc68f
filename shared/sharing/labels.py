"""The labels of GPU Feature Discovery, those of sharing first, from one inventory.

Named and valued as GPU Feature Discovery does, with two choices of ours: a node with several
models is described by its first whole GPU by index (there the last one wins, in no fixed order),
and the product is cut to what a label value may hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from shared.domain.gpu import Gpu, MigDevice
from shared.domain.sharing import GPU_RESOURCE, MigStrategy, Share, Strategy
from shared.sharing import features, hardware

MIXED_MODELS = "slicewire.io/gpu.mixed-models"
MIG_STRATEGY = "nvidia.com/mig.strategy"
SUFFIXES = ("product", "count", "replicas", "sharing-strategy", "memory")
_OF_PARTS = re.compile(
    rf"nvidia\.com/mig-[^/]+\.({'|'.join((*SUFFIXES, *features.PART_SUFFIXES))})"
)
_OF_SHARING = tuple(f".{suffix}" for suffix in SUFFIXES)
_LONGEST = 63
_STRIPPED = re.compile(r"[^A-Za-z0-9\-_. ]")


def labels(
    gpus: tuple[Gpu, ...], shares: tuple[Share, ...], strategy: MigStrategy
) -> dict[str, str]:
    """Return product, count, replicas, sharing-strategy, memory (MiB), and what `features` tell.

    Nothing without GPUs. A node with several models carries `MIXED_MODELS` besides, one with a MIG
    strategy its name; under mixed each MIG resource is described under its own name in the same
    way.
    """
    if not gpus:
        return {}
    several = len({gpu.model for gpu in gpus}) > 1
    found = _described(gpus, shares, strategy) | ({MIXED_MODELS: "true"} if several else {})
    found |= features.of_node(gpus, shares, strategy)
    if strategy is MigStrategy.NONE:
        return found
    return found | {MIG_STRATEGY: strategy.value} | _parts(gpus, shares, strategy)


def ours(present: Iterable[str]) -> frozenset[str]:
    """Name the labels that a node may have by `labels`, and of these all that tell of MIG parts."""
    fixed = (f"{GPU_RESOURCE}.{suffix}" for suffix in SUFFIXES)
    parts = (label for label in present if _OF_PARTS.fullmatch(label))
    return features.NAMES.union(fixed, (MIXED_MODELS, MIG_STRATEGY), parts)


def of_sharing(found: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that say how GPUs are shared, without those of `features`."""
    return {
        label: value
        for label, value in found.items()
        if label in (MIXED_MODELS, MIG_STRATEGY) or label.endswith(_OF_SHARING)
    }


def product(*parts: str) -> str:
    """Return a label value of the parts: odd characters dropped, spaces and joints as dashes."""
    words = ("-".join(_STRIPPED.sub("", part).split()) for part in parts)
    return _fit("-".join(word for word in words if word))


def _described(
    gpus: tuple[Gpu, ...], shares: tuple[Share, ...], strategy: MigStrategy
) -> dict[str, str]:
    if strategy is MigStrategy.SINGLE and any(gpu.mig_enabled for gpu in gpus):
        return _single(gpus, shares)
    whole = [gpu for gpu in gpus if not gpu.mig_enabled]
    shown = whole[0] if whole else gpus[0]
    same = [gpu for gpu in gpus if gpu.model == shown.model]
    if not whole:  # a cut GPU is described as it is, its sharing belongs to its MIG devices
        return _group(product(shown.model), len(same), 0, Strategy.NONE, shown.memory_mib)
    uuids = [gpu.uuid for gpu in same if not gpu.mig_enabled]
    return _shared(product(shown.model), len(same), _foremost(shares, uuids), shown.memory_mib)


def _single(gpus: tuple[Gpu, ...], shares: tuple[Share, ...]) -> dict[str, str]:
    """Describe MIG devices that stand in for GPUs, or say that they cannot."""
    model = next(gpu.model for gpu in gpus if gpu.mig_enabled)
    if hardware.single_conflict(gpus):
        return _group(product(model, "MIG", "INVALID"), 0, 0, "", 0)
    devices: list[MigDevice] = [device for gpu in gpus for device in gpu.mig_devices]
    share = _foremost(shares, [device.uuid for device in devices])
    name = product(model, "MIG", devices[0].profile)
    shown = _shared(name, len(devices), share, devices[0].memory_mib)
    return shown | features.of_part(GPU_RESOURCE, devices[0])


def _parts(
    gpus: tuple[Gpu, ...], shares: tuple[Share, ...], strategy: MigStrategy
) -> dict[str, str]:
    """Describe the MIG devices of each resource, by the first of them."""
    named: dict[str, list[tuple[Gpu, MigDevice]]] = {}
    parts = {mig.uuid: (gpu, mig) for gpu in gpus for mig in gpu.mig_devices}
    for device in hardware.devices(gpus, strategy).devices:
        if device.resource != GPU_RESOURCE and device.uuid in parts:
            named.setdefault(device.resource, []).append(parts[device.uuid])
    found: dict[str, str] = {}
    for resource, devices in sorted(named.items()):
        gpu, first = devices[0]
        share = _foremost(shares, [mig.uuid for _, mig in devices])
        name = product(gpu.model, "MIG", first.profile)
        found |= _shared(name, len(devices), share, first.memory_mib, resource=resource)
        found |= features.of_part(resource, first)
    return found


def _foremost(shares: tuple[Share, ...], uuids: list[str]) -> Share | None:
    """Return the first shared one of these devices, else the first."""
    own = [share for share in shares if share.uuid in uuids]
    return next((share for share in own if share.replicas > 1), own[0] if own else None)


def _shared(
    name: str, count: int, share: Share | None, memory: int, *, resource: str = GPU_RESOURCE
) -> dict[str, str]:
    if share is None or share.replicas == 1:
        return _group(name, count, 1, Strategy.NONE, memory, resource=resource)
    suffix = "" if share.renamed else "-SHARED"
    shown = _fit(name[: _LONGEST - len(suffix)]) + suffix
    return _group(shown, count, share.replicas, share.strategy, memory, resource=resource)


def _group(
    name: str,
    count: int,
    replicas: int,
    strategy: str,
    memory: int,
    *,
    resource: str = GPU_RESOURCE,
) -> dict[str, str]:
    values = zip(SUFFIXES, (name, count, replicas, strategy, memory), strict=True)
    return {f"{resource}.{suffix}": str(value) for suffix, value in values}


def _fit(text: str) -> str:
    """Cut a label value to its length and to letters or digits at both ends."""
    return re.sub(r"^[^A-Za-z0-9]+|[^A-Za-z0-9]+$", "", text[:_LONGEST])
