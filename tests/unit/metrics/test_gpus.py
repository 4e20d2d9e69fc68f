"""The inventory as series."""

from __future__ import annotations

import dataclasses

from services.advertiser import measures
from shared.contract.mps import DaemonState, MpsDaemon
from shared.domain.gpu import HealthState
from shared.domain.sharing import UNSHARED
from shared.telemetry import catalogue
from shared.telemetry.catalogue import Instrument
from tests.support import hardware, slots


def values(instrument: Instrument, *gpus: object) -> dict[str, float]:
    """Values by UUID."""
    seen = slots.inventory(UNSHARED, *gpus)  # type: ignore[arg-type]  # GPUs
    return {
        each.labels["uuid"]: each.value
        for each in measures.samples(seen)
        if each.instrument is instrument
    }


def test_a_sick_lost_or_silent_gpu_is_0_and_its_neighbour_1() -> None:
    for state in (HealthState.SICK, HealthState.LOST, HealthState.SILENT):
        sick = slots.sick(hardware.gpu(0), state)
        assert values(catalogue.GPU_HEALTHY, sick, hardware.gpu(1)) == {"GPU-0": 0, "GPU-1": 1}


def test_a_gpu_of_mps_says_whether_its_daemon_takes_clients() -> None:
    """One that only starts is 0 as well: nobody is served yet. Other GPUs have no such series."""
    seen = slots.inventory(UNSHARED, hardware.gpu(0), hardware.gpu(1))
    for state, ready in zip(DaemonState, (0, 1, 0), strict=True):
        told = (MpsDaemon(gpu_uuid="GPU-1", state=state),)
        found = [
            (each.labels["uuid"], each.value)
            for each in measures.samples(dataclasses.replace(seen, mps=told))
            if each.instrument is catalogue.MPS_DAEMON_READY
        ]
        assert found == [("GPU-1", ready)]


def test_memory_is_told_in_bytes() -> None:
    assert values(catalogue.GPU_MEMORY_SIZE, hardware.gpu(0)) == {"GPU-0": 81920 * 2**20}


def test_a_mig_device_is_known_by_its_uuid_and_by_its_place() -> None:
    """DCGM names instances by their GPU and the id of the GPU instance."""
    seen = slots.inventory(UNSHARED, hardware.mig_gpu(0, 1))
    (found,) = (
        each for each in measures.samples(seen) if each.instrument is catalogue.MIG_INSTANCE_INFO
    )
    assert found.labels == {
        "uuid": "MIG-0-0",
        "parent": "GPU-0",
        "gpu_instance": "7",
        "compute_instance": "0",
        "profile": "1g.10gb",
    }


def test_before_the_first_inventory_there_is_nothing_to_say() -> None:
    assert list(measures.samples(None)) == []
