"""GPUs and inventories for tests that need values, not a driver."""

from __future__ import annotations

from shared.contract.generation import NONE, Generation
from shared.contract.messages import ConfigState, Intent, Source, Stamp
from shared.domain.gpu import Engines, Gpu, Hardware, MigDevice, MigMode
from shared.domain.sharing import UNSHARED, SharedResource, SharingConfig, SourceKind, Strategy


def gpu(index: int, uuid: str | None = None, *, model: str = "NVIDIA A100-SXM4-80GB") -> Gpu:
    """A healthy GPU that can do MIG and does not."""
    return Gpu(
        index=index,
        uuid=uuid or f"GPU-{index}",
        model=model,
        minor=index,
        memory_mib=81920,
        pci_bus_id=f"00000000:{index + 1:02X}:00.0",
        pci_device=0x20B210DE,
        compute_capability=(8, 0),
        numa_node=0,
        mig_mode=MigMode(current=False, pending=False),
    )


def mig_gpu(index: int, instances: int) -> Gpu:
    """A GPU cut into `instances` devices of 1g.10gb, GPU instance ids from 7 on."""
    whole = gpu(index)
    return Gpu(
        **{name: getattr(whole, name) for name in whole.__slots__ if not name.startswith("mig")},
        mig_mode=MigMode(current=True, pending=True),
        mig_devices=tuple(
            MigDevice(
                index=number,
                uuid=f"MIG-{index}-{number}",
                profile="1g.10gb",
                gpu_instance=7 + number,
                compute_instance=0,
                start=number,
                size=1,
                memory_mib=9728,
                multiprocessors=14,
                gpu_slices=1,
                compute_slices=1,
                engines=Engines(copy=1, decoder=0, encoder=0, jpeg=0, ofa=0),
            )
            for number in range(instances)
        ),
    )


def hardware(*gpus: Gpu) -> Hardware:
    """A node with these GPUs."""
    return Hardware(driver_version="580.95.05", cuda_version=(13, 0), gpus=gpus)


def time_sliced(replicas: int, resource: str = "nvidia.com/gpu") -> SharingConfig:
    """Every device of `resource` in `replicas` slots."""
    return SharingConfig(
        strategy=Strategy.TIME_SLICING,
        resources=(SharedResource(name=resource, replicas=replicas),),
    )


def stamp(generation: Generation = NONE, node: str = "node-a") -> Stamp:
    """A stamp of one test writer."""
    return Stamp(node=node, writer="test/1", store=1, generation=generation)


def intent(
    sharing: SharingConfig = UNSHARED, generation: Generation = NONE, node: str = "node-a"
) -> Intent:
    """What the controller wants of a test node."""
    return Intent(
        stamp=stamp(generation, node),
        sharing=sharing,
        source=Source(kind=SourceKind.LABEL, config_map="sharing", key="any"),
        state=ConfigState.APPLIED,
    )
