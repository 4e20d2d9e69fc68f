"""Shares and holders to slots: which ids are listed, which only finish."""

from __future__ import annotations

import dataclasses

import pytest

from shared.domain.sharing import Offer, Share, Strategy
from shared.sharing import expand

GPU = "nvidia.com/gpu"
NEW = "nvidia.com/gpu.shared"
OTHER = "vendor.example/vgpu"
A, B, MIG = "GPU-a", "GPU-b", "MIG-1"
ONLY_FINISHES = "retiring"


def share(replicas: int, resource: str = GPU, uuid: str = A, index: int = 0) -> Share:
    return Share(uuid=uuid, gpu_uuid=uuid, gpu_index=index, resource=resource, replicas=replicas)


def told(offers: tuple[Offer, ...]) -> list[str]:
    """Offers as `resource: slots | retiring`, with the common prefixes left out."""
    lines = []
    for offer in offers:
        listed, retiring = (
            " ".join(slot.removeprefix(f"{A}::") for slot in slots)
            for slots in (offer.slots, offer.retiring)
        )
        lines.append(f"{offer.resource.removeprefix('nvidia.com/')}: {listed} | {retiring}".strip())
    return lines


def held(*numbers: int) -> set[str]:
    return {f"{A}::{number}" for number in numbers}


@pytest.mark.parametrize(
    ("shares", "holders", "expected"),
    [
        pytest.param(share(1), {}, ["gpu: GPU-a |"], id="whole"),
        pytest.param(share(1), {GPU: {A}}, ["gpu: GPU-a |"], id="whole-held"),
        pytest.param(share(3), {}, ["gpu: 0 1 2 |"], id="shared"),
        pytest.param(share(3), {GPU: held(1)}, ["gpu: 0 1 2 |"], id="shared-held"),
        pytest.param(share(12), {}, ["gpu: 0 1 2 3 4 5 6 7 8 9 10 11 |"], id="numeric-order"),
        pytest.param(share(4), {GPU: held(0, 1, 2, 3)}, ["gpu: 0 1 2 3 |"], id="U011-8-to-4"),
        pytest.param(share(4), {GPU: held(5, 6)}, ["gpu: 0 1 5 6 |"], id="held-ids-stay-first"),
        pytest.param(
            share(2), {GPU: held(0, 3, 5, 6)}, ["gpu: 0 3 | 5 6"], id="held-beyond-the-count-retire"
        ),
        pytest.param(share(8), {GPU: held(6)}, ["gpu: 0 1 2 3 4 5 6 7 |"], id="grown-again"),
        pytest.param(share(4), {GPU: {A}}, ["gpu:  | GPU-a"], id="whole-holder-blocks-slots"),
        pytest.param(share(1), {GPU: held(2)}, ["gpu:  | 2"], id="shared-holder-blocks-whole"),
        pytest.param(
            share(4, NEW), {GPU: held(0, 7)}, ["gpu.shared: 0 1 |", "gpu:  | 0 7"], id="renamed"
        ),
        pytest.param(
            share(2, NEW), {GPU: held(0, 1, 2)}, ["gpu.shared:  |", "gpu:  | 0 1 2"], id="no-room"
        ),
        pytest.param(
            share(4, NEW),
            {GPU: held(0, 1, 2), NEW: held(1, 3)},
            ["gpu.shared: 1 3 |", "gpu:  | 0 1 2"],
            id="own-holders-stay-beside-old-ones",
        ),
        pytest.param(
            share(4, NEW), {GPU: {A}}, ["gpu.shared:  |", "gpu:  | GPU-a"], id="renamed-while-whole"
        ),
        pytest.param(share(4), {GPU: {"GPU-gone::1"}}, ["gpu: 0 1 2 3 |"], id="lost-is-not-ours"),
        pytest.param(share(0), {GPU: held(1)}, ["gpu:  | 1"], id="nothing-but-its-holders"),
        pytest.param(
            share(4), {OTHER: {f"{A}::v1"}}, ["gpu:  |", f"{OTHER}:  | v1"], id="another-plugins-id"
        ),
        pytest.param(share(1), {GPU: {f"{A}::"}}, ["gpu:  |"], id="whole-but-for-a-cut-off-id"),
    ],
)
def test_slots_of_one_gpu(shares: Share, holders: dict[str, set[str]], expected: list[str]) -> None:
    """One share and its holders in, listed and retiring ids out."""
    assert told(expand.expand((shares,), holders)) == expected


def sharing_as(strategy: Strategy, replicas: int) -> Share:
    return dataclasses.replace(share(replicas), strategy=strategy)


@pytest.mark.parametrize(
    ("replicas", "old", "new", "expected"),
    [
        pytest.param(4, (0, 1), (), ["gpu: 2 3 | 0 1"], id="the-rest-is-offered-under-other-ids"),
        pytest.param(4, (1,), (2,), ["gpu: 0 2 3 | 1"], id="beside-its-own-holders"),
        pytest.param(2, (0, 1), (), ["gpu:  | 0 1"], id="no-room"),
        pytest.param(4, (), (0, 5), ["gpu: 0 1 2 5 |"], id="the-old-form-has-drained"),
    ],
)
@pytest.mark.parametrize(
    "strategies",
    [(Strategy.TIME_SLICING, Strategy.MPS), (Strategy.MPS, Strategy.TIME_SLICING)],
    ids=lambda pair: pair[1],
)
def test_mps_and_time_slicing_are_two_forms_of_one_name(
    strategies: tuple[Strategy, Strategy],
    replicas: int,
    old: tuple[int, ...],
    new: tuple[int, ...],
    expected: list[str],
) -> None:
    """An id is held in one form at a time, and a GPU is offered anew as far as that leaves room."""
    before, after = strategies
    forms = {(GPU, f"{A}::{number}"): before for number in old}
    forms |= {(GPU, f"{A}::{number}"): after for number in new}
    offers = expand.expand((sharing_as(after, replicas),), {GPU: held(*old, *new)}, forms)
    assert told(offers) == expected


def part(replicas: int = 1) -> Share:
    return Share(uuid=MIG, gpu_uuid=A, gpu_index=0, resource="nvidia.com/mig", replicas=replicas)


@pytest.mark.parametrize("slot", [A, f"{A}::3"])
def test_a_mig_device_waits_for_the_holders_of_its_gpu(slot: str) -> None:
    """A GPU is never offered whole and cut: the cut form waits, the holder only finishes."""
    assert told(expand.expand((part(4),), {GPU: {slot}})) == [
        "mig:  |",
        f"gpu:  | {slot.removeprefix(f'{A}::')}",
    ]


def test_a_gpu_waits_for_the_holders_of_its_mig_devices() -> None:
    """Strategy mixed to none with a MIG device in use: the GPU itself is not offered yet."""
    whole = Share(uuid=A, gpu_uuid=A, gpu_index=0, resource=GPU, replicas=2, parts=(MIG,))
    offers = expand.expand((whole,), {"nvidia.com/mig": {f"{MIG}::1"}})
    assert told(offers) == ["gpu:  |", f"mig:  | {MIG}::1"]
    assert offers[1].gpu_uuid == A


def test_gpus_do_not_disturb_each_other() -> None:
    """A holder on one GPU leaves the offer of the other alone; order is that of the shares."""
    shares = (share(2, NEW), share(2, NEW, uuid=B, index=1))
    offers = expand.expand(shares, {GPU: {A}})
    assert [(offer.uuid, offer.resource, len(offer.slots)) for offer in offers] == [
        (A, NEW, 0),
        (B, NEW, 2),
        (A, GPU, 0),
    ]


def test_the_order_of_the_holders_does_not_matter() -> None:
    """Equal inputs in any order give equal offers."""
    shares = (share(2),)
    first = expand.expand(shares, {GPU: [f"{A}::3", f"{A}::10", f"{A}::2"], NEW: [f"{A}::1"]})
    second = expand.expand(shares, {NEW: [f"{A}::1"], GPU: [f"{A}::10", f"{A}::2", f"{A}::3"]})
    assert first == second
    assert told(first) == ["gpu: 2 3 | 10", "gpu.shared:  | 1"]
