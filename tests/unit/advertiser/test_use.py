"""Samples, owners and the ledger become what is taken, by whom; nobody is charged for another."""

from __future__ import annotations

import dataclasses

import pytest

from services.advertiser import over_use, use, use_measures
from services.advertiser.owners import Owner
from shared.contract.facts import FactKind
from shared.contract.messages import Inventory, Ledger, LedgerRow
from shared.contract.usage import DeviceUse, PodUse, Usage
from shared.domain.sharing import Share, Strategy
from shared.domain.slots import Holder, SlotState
from shared.nvml.port import ProcessUse, Sample
from tests.support import hardware

GPU, MIG = "GPU-0", "MIG-0-0"
TRAIN, SERVE, THIEF = (Holder("team-a", name, "main") for name in ("train", "serve", "thief"))
SIDE = dataclasses.replace(TRAIN, container="side")
STAMP = hardware.stamp()


def process(pid: int, memory: int | None = 100, percent: int | None = 10) -> ProcessUse:
    return ProcessUse(pid=pid, memory_mib=memory, sm_percent=percent)


def sample(*processes: ProcessUse, uuid: str = GPU) -> Sample:
    return Sample(
        uuid=uuid,
        gpu_uuid=GPU,
        memory_mib=15360,
        used_mib=5000,
        sm_percent=40,
        processes=processes,
    )


def owners(*known: tuple[int, Holder | None]) -> dict[int, Owner]:
    return {pid: Owner(pid=pid, program="python", holder=holder) for pid, holder in known}


def row(slot: str, holder: Holder | None, strategy: Strategy = Strategy.TIME_SLICING) -> LedgerRow:
    return LedgerRow(
        slot=slot,
        resource="nvidia.com/gpu",
        gpu_uuid=GPU,
        state=SlotState.HELD if holder else SlotState.GRANTED,
        strategy=strategy,
        holder=holder,
    )


def ledger(*rows: LedgerRow) -> Ledger:
    return Ledger(stamp=STAMP, rows=rows, counts=())


HELD = ledger(row(f"{GPU}::0", TRAIN), row(f"{GPU}::1", SERVE), row("GPU-1::0", THIEF))


def one(seen: Sample, known: use.Owners | None, told: Ledger | None) -> DeviceUse:
    (device,) = use.devices([seen], known, told)
    return device


def test_each_pod_is_charged_with_its_own() -> None:
    """Container by container; several processes of one add up."""
    seen = sample(process(1), process(2), process(3, 7), process(4, 1000, 30))
    device = one(seen, owners((1, TRAIN), (2, TRAIN), (3, SIDE), (4, SERVE)), HELD)
    assert device.pods == (
        PodUse(holder=SERVE, memory_mib=1000, sm_percent=30),
        PodUse(holder=TRAIN, memory_mib=200, sm_percent=20),
        PodUse(holder=SIDE, memory_mib=7, sm_percent=10),
    )
    assert (device.unaccounted, device.unaccounted_mib) == ((), 0)


def test_u091_who_holds_no_slot_is_unaccounted() -> None:
    """A pod that holds one elsewhere, one that holds none, one that has gone, and the host."""
    known = owners((1, TRAIN), (2, THIEF), (4, None))
    known[3] = Owner(pid=3, program="x", pod_uid="3b0c7f43")
    device = one(sample(*(process(pid) for pid in (1, 2, 3, 4))), known, HELD)
    assert [each.holder for each in device.pods] == [TRAIN]
    assert device.unaccounted == ("pod 3b0c7f43", "python (4)", "team-a/thief")
    assert (device.unaccounted_processes, device.unaccounted_mib) == (3, 300)


def test_without_a_ledger_pods_are_taken_for_holders() -> None:
    """Nobody has said yet who holds slots; a process of the host is nobody's all the same."""
    device = one(sample(process(1), process(2)), owners((1, THIEF), (2, None)), None)
    assert [each.holder for each in device.pods] == [THIEF]
    assert device.unaccounted == ("python (2)",)


def test_while_a_grant_is_unresolved_no_pod_is_accused() -> None:
    """It may be the one that got the slot; then it is not charged either."""
    told = ledger(row(f"{GPU}::0", TRAIN), row(f"{GPU}::1", None))
    device = one(
        sample(process(1), process(2), process(3)), owners((1, TRAIN), (2, SERVE), (3, None)), told
    )
    assert [each.holder for each in device.pods] == [TRAIN]
    assert device.unaccounted == ("python (3)",)


def test_a_slot_of_the_whole_gpu_covers_its_mig_devices() -> None:
    """With migStrategy none a pod gets the GPU and works on its instances."""
    told = ledger(row(GPU, TRAIN))
    assert one(sample(process(1), uuid=MIG), owners((1, TRAIN)), told).pods
    told = ledger(row(f"{MIG}::3", TRAIN))
    assert one(sample(process(1), uuid=MIG), owners((1, TRAIN)), told).pods
    assert not one(sample(process(1), uuid="MIG-0-1"), owners((1, TRAIN)), told).pods


def test_the_server_of_mps_is_nobodys_use() -> None:
    """It works for the holders of slots."""
    server = {1: Owner(pid=1, program=use.MPS_SERVER, holder=THIEF)}
    device = one(sample(process(1)), server, HELD)
    assert (device.pods, device.unaccounted) == ((), ())


def test_time_that_the_server_of_mps_is_charged_with_is_not_its_clients_rest() -> None:
    """Nobody can tell whose it was; what NVML does say of a client stays."""
    known = owners((1, TRAIN), (2, SERVE))
    known[3] = Owner(pid=3, program=use.MPS_SERVER, holder=THIEF)
    seen = sample(process(1, 100, 0), process(2, 100, 30), process(3, 30, 50))
    device = one(seen, known, HELD)
    assert [(each.holder, each.sm_percent) for each in device.pods] == [(SERVE, 30), (TRAIN, None)]
    seen = sample(process(1, 100, 0), process(3, 30, 0))
    assert [each.sm_percent for each in one(seen, known, HELD).pods] == [0]


def test_processes_that_ended_since_are_left_out() -> None:
    """NVML named them a moment ago."""
    device = one(sample(process(1), process(9)), owners((1, TRAIN)), HELD)
    assert (len(device.pods), device.unaccounted_processes) == (1, 0)


def test_what_nvml_does_not_say_stays_unsaid() -> None:
    """No memory is not zero memory; what is known of others is added."""
    seen = sample(process(1, None, None), process(2, 50, None), process(3, None, None))
    device = one(seen, owners((1, TRAIN), (2, TRAIN), (3, SERVE)), HELD)
    assert [(each.memory_mib, each.sm_percent) for each in device.pods] == [
        (None, None),
        (50, None),
    ]


def test_time_of_a_pod_is_never_more_than_all_of_it() -> None:
    """Samples of processes are of different moments."""
    device = one(sample(process(1, 1, 80), process(2, 1, 80)), owners((1, TRAIN), (2, TRAIN)), HELD)
    assert device.pods[0].sm_percent == 100


def test_many_strangers_are_counted_and_some_are_named() -> None:
    """A message has its bounds."""
    pids = range(1, 100)
    device = one(sample(*map(process, pids)), owners(*((pid, None) for pid in pids)), HELD)
    assert len(device.unaccounted) == use.MOST_NAMED
    assert device.unaccounted_processes == 99


# ------------------------------------------------------------------------- what is worth telling


def usage(*devices: DeviceUse, blind: str = "") -> Usage:
    return Usage(stamp=STAMP, devices=devices, blind=blind)


BUSY = DeviceUse(
    uuid=GPU,
    gpu_uuid=GPU,
    memory_mib=15360,
    used_mib=5000,
    sm_percent=40,
    pods=(PodUse(holder=TRAIN, memory_mib=4000, sm_percent=30),),
)


def with_pod(memory_mib: int | None = 4000, sm_percent: int | None = 30) -> DeviceUse:
    pod = PodUse(holder=TRAIN, memory_mib=memory_mib, sm_percent=sm_percent)
    return dataclasses.replace(BUSY, pods=(pod,))


@pytest.mark.parametrize(
    ("after", "told"),
    [
        pytest.param(BUSY, False, id="the same"),
        pytest.param(dataclasses.replace(BUSY, used_mib=5063, sm_percent=49), False, id="noise"),
        pytest.param(with_pod(memory_mib=4063, sm_percent=21), False, id="noise of a pod"),
        pytest.param(dataclasses.replace(BUSY, used_mib=4936), True, id="memory"),
        pytest.param(dataclasses.replace(BUSY, sm_percent=50), True, id="time"),
        pytest.param(dataclasses.replace(BUSY, sm_percent=None), True, id="time unsaid"),
        pytest.param(with_pod(memory_mib=4064), True, id="memory of a pod"),
        pytest.param(with_pod(sm_percent=40), True, id="time of a pod"),
        pytest.param(dataclasses.replace(BUSY, pods=()), True, id="a pod that ended"),
        pytest.param(dataclasses.replace(BUSY, uuid="GPU-1"), True, id="another device"),
        pytest.param(
            dataclasses.replace(BUSY, unaccounted=("a (1)",), unaccounted_processes=1),
            True,
            id="a stranger",
        ),
        pytest.param(dataclasses.replace(BUSY, unaccounted_mib=64), True, id="a stranger's memory"),
    ],
)
def test_the_bus_is_told_what_matters(after: DeviceUse, told: bool) -> None:
    """Not each of a working GPU's movements."""
    assert use.differ(usage(BUSY), usage(after)) is told


def test_the_first_usage_a_gpu_less_and_blindness_are_told() -> None:
    """Whatever stands beside them."""
    assert use.differ(None, usage())
    assert use.differ(usage(BUSY), usage())
    assert use.differ(usage(BUSY), usage(BUSY, blind="no hostPID"))


# ------------------------------------------------------------------------------------ over-use


def inventory(replicas: int) -> Inventory:
    share = Share(
        uuid=GPU,
        gpu_uuid=GPU,
        gpu_index=0,
        resource="nvidia.com/gpu",
        replicas=replicas,
        strategy=Strategy.TIME_SLICING,
    )
    return Inventory(
        stamp=STAMP,
        driver_version="580.95.05",
        cuda_version=(13, 0),
        gpus=(hardware.gpu(0, GPU),),
        shares=(share,),
    )


def test_u099_a_pod_that_takes_more_than_its_share_is_told() -> None:
    """A T4 in four: a slot stands for 3840 MiB."""
    found = over_use.excesses(usage(BUSY), inventory(4), HELD)
    assert [(each.pod, each.used_mib, each.share_mib) for each in found] == [("train", 4000, 3840)]
    told = over_use.fact(found[0], STAMP, 7)
    assert told.kind is FactKind.OVER_USE
    assert told.holders == (Holder("team-a", "train", ""),)
    assert told.sentence == (
        "pod team-a/train takes 4000 MiB of GPU-0, its 1 of the slots there stand for 3840 MiB,"
        " 10360 MiB are free: have it take less or ask for more slots, before others find no memory"
    )


@pytest.mark.parametrize(
    ("device", "replicas", "told"),
    [
        pytest.param(with_pod(memory_mib=3840), 4, HELD, id="just its share"),
        pytest.param(with_pod(memory_mib=None), 4, HELD, id="memory unsaid"),
        pytest.param(BUSY, 1, ledger(row(GPU, TRAIN)), id="the whole card"),
        pytest.param(
            BUSY, 4, ledger(row(f"{GPU}::0", TRAIN), row(f"{GPU}::1", TRAIN)), id="two slots"
        ),
        pytest.param(BUSY, 4, ledger(row(f"{GPU}::0", TRAIN, Strategy.MPS)), id="kept by MPS"),
    ],
)
def test_who_stays_within_its_share_is_not_told(
    device: DeviceUse, replicas: int, told: Ledger
) -> None:
    """Nor who cannot leave it, nor who shares with nobody."""
    assert over_use.excesses(usage(device), inventory(replicas), told) == ()


def test_the_containers_of_a_pod_share_its_slots() -> None:
    """Their memory adds up."""
    half = PodUse(holder=TRAIN, memory_mib=2000, sm_percent=None)
    both = (half, dataclasses.replace(half, holder=SIDE))
    (found,) = over_use.excesses(usage(dataclasses.replace(BUSY, pods=both)), inventory(4), HELD)
    assert found.used_mib == 4000
    assert over_use.present(usage(BUSY)) == {found.key}


# -------------------------------------------------------------------------------------- series


def series(
    told: Usage, known: Ledger | None, replicas: int = 4
) -> dict[str, tuple[float, dict[str, str]]]:
    found = list(use_measures.samples(told, inventory(replicas), known))
    assert len({(each.instrument.exposed, *each.labels.values()) for each in found}) == len(found)
    return {each.instrument.exposed: (each.value, each.labels) for each in found}


def test_series_say_bytes_and_ratios_by_pod_and_by_gpu() -> None:
    """With the labels that say how a GPU is shared."""
    found = series(usage(BUSY), HELD)
    of_gpu = {
        "uuid": GPU,
        "index": "0",
        "model": "NVIDIA A100-SXM4-80GB",
        "shared": "true",
        "holders": "3",
    }
    of_pod = {"namespace": "team-a", "pod": "train", "container": "main", "uuid": GPU}
    assert found == {
        "slicewire_gpu_memory_used_bytes": (5000 << 20, of_gpu),
        "slicewire_gpu_utilization_ratio": (0.4, of_gpu),
        "slicewire_pod_gpu_memory_used_bytes": (4000 << 20, of_pod),
        "slicewire_pod_gpu_sm_utilization_ratio": (0.3, of_pod),
        "slicewire_unaccounted_gpu_memory_used_bytes": (0, {"uuid": GPU}),
        "slicewire_unaccounted_gpu_processes": (0, {"uuid": GPU}),
    }


def test_what_is_not_known_has_no_series() -> None:
    """Neither zero nor the last value; the label of what nobody said is empty."""
    silent = dataclasses.replace(
        BUSY, sm_percent=None, pods=(PodUse(holder=TRAIN, memory_mib=None, sm_percent=None),)
    )
    found = series(usage(silent, blind="no hostPID"), None, replicas=1)
    assert list(found) == ["slicewire_gpu_memory_used_bytes"]
    labels = found["slicewire_gpu_memory_used_bytes"][1]
    assert (labels["shared"], labels["holders"]) == ("false", "")
    assert "slicewire_pod_gpu_memory_used_bytes" not in series(usage(silent), None)
    assert list(use_measures.samples(usage(), inventory(1), None)) == []
    assert list(use_measures.samples(usage(), None, None)) == []
