"""Configs on hardware: counts per resource, refusals that need the GPUs, warnings."""

from __future__ import annotations

import collections
import dataclasses

import pytest

from shared.domain.errors import Problem, RefusedError
from shared.domain.gpu import Gpu, Health, HealthState, MigMode
from shared.domain.sharing import MigStrategy, Share, SharingConfig, Strategy
from shared.sharing import expand, load, shares
from tests.support import hardware
from tests.unit.sharing import texts

UUIDS = (
    "GPU-b1028956-cfa2-0990-bf4a-5da9abb51763",
    "GPU-e5f1c2aa-0b1d-4c3e-9f00-000000000001",
)
A100S = tuple(hardware.gpu(index, uuid) for index, uuid in enumerate(UUIDS))
MIXED = "flags: {migStrategy: mixed}\n"
SINGLE = "flags: {migStrategy: single}\n"


def counts(text: str, gpus: tuple[Gpu, ...]) -> dict[str, int]:
    """Slots per resource, as the kubelet would count them with nobody holding any."""
    found: collections.Counter[str] = collections.Counter()
    for offer in expand.expand(shares.shares(gpus, load.load(text)).shares, {}):
        found[offer.resource] += len(offer.slots)
    return dict(found)


def refused(text: str, gpus: tuple[Gpu, ...] = A100S) -> tuple[Problem, ...]:
    """The problems that a text has on these GPUs."""
    with pytest.raises(RefusedError) as caught:
        shares.shares(gpus, load.load(text))
    return caught.value.problems


def warnings(text: str, gpus: tuple[Gpu, ...] = A100S) -> list[str]:
    """The sentences that a text is accepted with on these GPUs."""
    return [problem.sentence() for problem in shares.shares(gpus, load.load(text)).warnings]


def profiles(gpu: Gpu, *names: str) -> Gpu:
    """The same MIG GPU with these profiles on its devices."""
    devices = tuple(
        dataclasses.replace(device, profile=name)
        for device, name in zip(gpu.mig_devices, names, strict=True)
    )
    return dataclasses.replace(gpu, mig_devices=devices)


CUT = hardware.mig_gpu(1, 2)
GEFORCES = (hardware.gpu(0, model="RTX 3090"), hardware.gpu(1, model="RTX 4090"))
THREE = tuple(hardware.gpu(index) for index in range(3))

# (id, text, gpus, slots per resource)
CASES: list[tuple[str, str, tuple[Gpu, ...], dict[str, int]]] = [
    ("unshared", "", A100S, {"nvidia.com/gpu": 2}),
    ("F01-x4", texts.gpu("replicas: 4"), A100S[:1], {"nvidia.com/gpu": 4}),
    ("U001-x16384", texts.gpu("replicas: 16384"), A100S[:1], {"nvidia.com/gpu": 16384}),
    (
        "U003-one-of-two-renamed",
        texts.gpu("rename: nvidia.com/gpu.shared, devices: [0], replicas: 10"),
        A100S,
        {"nvidia.com/gpu": 1, "nvidia.com/gpu.shared": 10},
    ),
    (
        "U009-pair",
        MIXED + texts.sliced("name: mig-1g.10gb, replicas: 4, devices: [1:0]")[12:],
        (A100S[0], CUT),
        {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 5},
    ),
    ("F03-replicas-1-stays-whole", texts.gpu("replicas: 1"), A100S, {"nvidia.com/gpu": 2}),
    (
        "F15-renamed-x50",
        texts.sliced("name: gpu, replicas: 50", options="renameByDefault: true"),
        A100S,
        {"nvidia.com/gpu.shared": 100},
    ),
    (
        "devices-by-uuid",
        texts.gpu(f"replicas: 3, devices: [{UUIDS[1]}]"),
        A100S,
        {"nvidia.com/gpu": 4},
    ),
    (
        "two-renamed-on-disjoint-devices",
        texts.sliced(
            "name: gpu, rename: light, replicas: 2, devices: [0]",
            "name: gpu, rename: heavy, replicas: 3, devices: [1]",
        ),
        A100S,
        {"nvidia.com/light": 2, "nvidia.com/heavy": 3},
    ),
    ("none-shows-the-cut-gpu-whole", texts.gpu("replicas: 2"), (CUT,), {"nvidia.com/gpu": 2}),
    (
        "mixed-times-replicas",
        MIXED + texts.sliced("name: mig-1g.10gb, replicas: 4")[12:],
        (CUT,),
        {"nvidia.com/mig-1g.10gb": 8},
    ),
    (
        "mixed-me",
        MIXED + texts.sliced("name: mig-1g.10gb.me, replicas: 4")[12:],
        (profiles(CUT, "1g.10gb+me", "1g.10gb"),),
        {"nvidia.com/mig-1g.10gb.me": 4, "nvidia.com/mig-1g.10gb": 1},
    ),
    (
        "mixed-fraction-has-no-name",
        MIXED,
        (profiles(CUT, "1c.3g.40gb", "3g.40gb"),),
        {"nvidia.com/mig-3g.40gb": 1},
    ),
    ("mixed-empty", MIXED, (hardware.mig_gpu(0, 0),), {}),
    (
        "single-times-replicas",
        SINGLE + texts.gpu("replicas: 3")[12:],
        (hardware.mig_gpu(0, 2), CUT),
        {"nvidia.com/gpu": 12},
    ),
    ("single-without-mig", SINGLE, A100S, {"nvidia.com/gpu": 2}),
    ("single-half-cut", SINGLE, (A100S[0], CUT), {"nvidia.com/gpu": 0}),
    ("single-two-profiles", SINGLE, (profiles(CUT, "1g.10gb", "2g.20gb"),), {"nvidia.com/gpu": 0}),
    ("single-one-gpu-empty", SINGLE, (hardware.mig_gpu(0, 0), CUT), {"nvidia.com/gpu": 0}),
    ("U063-single-empty", SINGLE, (hardware.mig_gpu(0, 0),), {}),
    ("U083-two-models", texts.gpu("replicas: 5"), GEFORCES, {"nvidia.com/gpu": 10}),
    (
        "resource-that-is-not-there",
        texts.sliced("name: mig-1g.5gb, replicas: 4"),
        A100S,
        {"nvidia.com/gpu": 2},
    ),
]


@pytest.mark.parametrize(
    ("text", "gpus", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_text_gives_its_slots(text: str, gpus: tuple[Gpu, ...], expected: dict[str, int]) -> None:
    """Text and GPUs in, slots per resource out."""
    assert counts(text, gpus) == expected


@pytest.mark.parametrize(
    ("text", "gpus", "path", "part"),
    [
        pytest.param(
            texts.gpu("replicas: 2, devices: [0, 7]"),
            A100S,
            "sharing.timeSlicing.resources[0].devices[1]",
            "the node has no nvidia.com/gpu 7, it has 0, 1",
            id="B2-out-of-range",
        ),
        pytest.param(
            MIXED + texts.sliced("name: mig-1g.10gb, replicas: 4, devices: [60]")[12:],
            (A100S[0], CUT),
            "sharing.timeSlicing.resources[0].devices[0]",
            "it has 1:0, 1:1",
            id="U009-a-number-above-the-count",
        ),
        pytest.param(
            texts.gpu(f"replicas: 2, devices: [0, {UUIDS[0]}]"),
            A100S,
            "sharing.timeSlicing.resources[0].devices[1]",
            "are one device",
            id="index-and-uuid-of-one-device",
        ),
        pytest.param(
            texts.sliced(
                "name: gpu, replicas: 2, devices: [0]",
                f"name: gpu, replicas: 3, devices: [1, {UUIDS[0]}]",
            ),
            A100S,
            "sharing.timeSlicing.resources[1].devices[1]",
            "is covered by sharing.timeSlicing.resources[0] already",
            id="device-in-two-entries",
        ),
        pytest.param(
            texts.gpu("replicas: 8000"),
            THREE,
            "sharing.timeSlicing.resources[0].replicas",
            "24000 ids of nvidia.com/gpu are more than the 20000 that the kubelet takes"
            " (3 devices with 8000 replicas each) (at most 6666 replicas fit)",
            id="too-many-ids",
        ),
    ],
)
def test_what_the_hardware_refutes_is_refused(
    text: str, gpus: tuple[Gpu, ...], path: str, part: str
) -> None:
    """Devices out of range, twice covered or too finely cut are refused where they stand."""
    (problem,) = refused(text, gpus)
    assert problem.path == path
    assert part in problem.sentence()
    assert problem.line >= 4


def test_the_proposed_number_of_replicas_fits() -> None:
    """What a refusal proposes is accepted."""
    assert counts(texts.gpu("replicas: 6666"), THREE) == {"nvidia.com/gpu": 19998}


@pytest.mark.parametrize(
    ("text", "gpus", "part"),
    [
        pytest.param(
            texts.sliced("name: mig-1g.5gb, replicas: 4"),
            A100S,
            "no device of the node is a nvidia.com/mig-1g.5gb, it has nvidia.com/gpu: no effect",
            id="resource-not-there",
        ),
        pytest.param(SINGLE, (A100S[0], CUT), "GPU 1 has it on, GPU 0 off", id="single-half-cut"),
        pytest.param(SINGLE, (hardware.mig_gpu(0, 0),), "no MIG device yet", id="U063-single"),
        pytest.param(MIXED, (hardware.mig_gpu(0, 0),), "no MIG device yet", id="U063-mixed"),
        pytest.param(
            SINGLE,
            (profiles(CUT, "1g.10gb", "2g.20gb"),),
            "found 1g.10gb, 2g.20gb",
            id="single-two-profiles",
        ),
        pytest.param(
            MIXED, (profiles(CUT, "1c.3g.40gb", "3g.40gb"),), "1:0 (1c.3g.40gb)", id="fraction"
        ),
    ],
)
def test_what_has_no_effect_is_said(text: str, gpus: tuple[Gpu, ...], part: str) -> None:
    """Accepted texts whose effect is not what they say carry a warning."""
    (warning,) = warnings(text, gpus)
    assert part in warning


def test_a_sick_gpu_keeps_its_shares() -> None:
    """Health withholds slots elsewhere; the share stays, so the holders stay known."""
    sick = dataclasses.replace(A100S[0], health=Health(state=HealthState.SICK, xid=79))
    config = load.load(texts.gpu("replicas: 4"))
    well = shares.shares(A100S, config)
    assert shares.shares((sick, A100S[1]), config) == well


def test_a_share_says_everything_the_allocator_needs() -> None:
    """Strategy, limit, policy and the new name travel with each device."""
    text = "slicewire: {allocationPolicy: packed}\n" + texts.sliced(
        "name: gpu, replicas: 4, devices: [1]",
        options="failRequestsGreaterThanOne: true\n    renameByDefault: true",
    )
    whole, shared = shares.shares(A100S, load.load(text)).shares
    assert (whole.strategy, whole.fail_requests_greater_than_one) == (Strategy.NONE, False)
    assert (whole.renamed, whole.replicas, whole.resource) == (False, 1, "nvidia.com/gpu")
    assert shared == Share(
        uuid=UUIDS[1],
        gpu_uuid=UUIDS[1],
        gpu_index=1,
        resource="nvidia.com/gpu.shared",
        replicas=4,
        strategy=Strategy.TIME_SLICING,
        renamed=True,
        fail_requests_greater_than_one=True,
        policy=shared.policy,
    )
    assert whole.policy is shared.policy
    assert shared.policy.value == "packed"


def test_pending_mig_mode_changes_no_name() -> None:
    """Only the mode in force decides which devices there are."""
    pending = dataclasses.replace(A100S[0], mig_mode=MigMode(current=False, pending=True))
    config = SharingConfig(mig_strategy=MigStrategy.MIXED)
    (share,) = shares.shares((pending,), config).shares
    assert share.resource == "nvidia.com/gpu"


MPS = "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: %d}]}}"
T4 = dataclasses.replace(
    hardware.gpu(0, model="Tesla T4"), memory_mib=15360, compute_capability=(7, 5)
)
P100 = dataclasses.replace(hardware.gpu(0, model="Tesla P100"), compute_capability=(6, 0))


@pytest.mark.parametrize(
    ("gpu", "replicas", "most"),
    [
        pytest.param(A100S[0], 49, 48, id="U103-volta-and-newer"),
        pytest.param(P100, 17, 16, id="before-volta"),
    ],
)
def test_more_replicas_than_mps_has_clients_are_refused(gpu: Gpu, replicas: int, most: int) -> None:
    """The refusal stands at the number, and says the limit of this model."""
    (problem,) = refused(MPS % replicas, (gpu,))
    assert problem.path == "sharing.mps.resources[0].replicas"
    assert f"MPS takes {most} clients on GPU 0 ({gpu.model})" in problem.message
    assert counts(MPS % most, (gpu,)) == {"nvidia.com/gpu": most}


def test_small_memory_for_each_mps_client_is_said() -> None:
    """U103: 40 clients of a T4 are accepted, and whoever wrote it learns what each one gets."""
    (sentence,) = warnings(MPS % 40, (T4,))
    assert "384 MiB of its 15360 MiB" in sentence
    assert not warnings(MPS % 30, (T4,))


@pytest.mark.parametrize("flags", ["", SINGLE], ids=["none", "single"])
def test_mps_on_a_gpu_that_is_cut_is_refused(flags: str) -> None:
    """As with NVIDIA's plugin: its MIG devices are to be shared by time-slicing."""
    (problem,) = refused(flags + MPS % 2, (CUT,))
    assert "GPU 1 is in MIG mode" in problem.message
    assert "timeSlicing" in problem.suggestion


def test_mps_beside_a_gpu_that_is_cut() -> None:
    """Where MIG devices have a name of their own, the other GPUs can be shared by MPS."""
    assert counts(MIXED + MPS % 2, (A100S[0], CUT))["nvidia.com/gpu"] == 2


def test_what_mps_refuses_is_said_once_for_gpus_of_one_kind() -> None:
    """Eight GPUs alike are one mistake."""
    assert len(refused(MPS % 49, THREE)) == 1
