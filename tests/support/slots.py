"""Inventories, standings and Lists for tests of the allocator: values, no services."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TypeVar

from services.allocator import ledger, standing
from services.allocator.grants import Listed
from services.allocator.ledger import State
from services.allocator.standing import Standing
from shared.contract.messages import Inventory, Stamp
from shared.domain.gpu import Gpu, Health, HealthState, MigDevice
from shared.domain.sharing import UNSHARED, AllocationPolicy, SharingConfig
from shared.domain.slots import Holder
from shared.sharing import shares
from tests.support import hardware

GPU = "nvidia.com/gpu"
SECOND = 1_000_000_000
G = TypeVar("G", Gpu, MigDevice)


def inventory(
    config: SharingConfig = UNSHARED,
    *gpus: Gpu,
    traceparent: str = "",
    stamp: Stamp | None = None,
) -> Inventory:
    """What an advertiser says of these GPUs under a config."""
    return Inventory(
        stamp=stamp or hardware.stamp(),
        driver_version="580.95.05",
        cuda_version=(13, 0),
        gpus=gpus,
        shares=shares.shares(gpus, config).shares,
        traceparent=traceparent,
    )


def time_sliced(
    replicas: int,
    *,
    policy: AllocationPolicy = AllocationPolicy.DISTRIBUTED,
    one_only: bool = False,
    rename: str | None = None,
) -> SharingConfig:
    """GPUs in `replicas` slots, with what a text may say besides."""
    config = hardware.time_sliced(replicas)
    entry = dataclasses.replace(config.resources[0], rename=rename)
    return dataclasses.replace(
        config,
        resources=(entry,),
        allocation_policy=policy,
        fail_requests_greater_than_one=one_only,
    )


def named(index: int, name: str, *, numa: int | None = None) -> Gpu:
    """A healthy GPU with a short name."""
    return dataclasses.replace(hardware.gpu(index, f"GPU-{name}"), numa_node=numa)


def sick(gpu: G, state: HealthState = HealthState.SICK) -> G:
    """The same GPU or MIG device with XID 79."""
    health = Health(state=state, reason="XID 79: fallen off the bus", xid=79)
    return dataclasses.replace(gpu, health=health)


def state_of(seen: Inventory) -> State:
    """A ledger that knows this inventory and nobody that holds anything."""
    return ledger.devices(State(), seen, confirmed=True).state


def standing_of(config: SharingConfig, *gpus: Gpu) -> Standing:
    """What stands where nobody holds anything."""
    return standing.derive(state_of(inventory(config, *gpus)))


def holder(pod: str, container: str = "main") -> Holder:
    """A container of a pod in the namespace `default`."""
    return Holder("default", pod, container)


def listing(*rows: tuple[str, Iterable[str]], resource: str = GPU) -> tuple[Listed, ...]:
    """A List: (pod or pod/container, slots) each."""
    made = []
    for name, slots in rows:
        pod, _, container = name.partition("/")
        made.append(Listed(holder(pod, container or "main"), resource, tuple(slots)))
    return tuple(made)
