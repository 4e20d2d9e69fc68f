"""The labels of a node, as GPU Feature Discovery writes them."""

from __future__ import annotations

import dataclasses

import pytest

from shared.domain.gpu import Gpu
from shared.sharing import labels, load, shares
from tests.support import hardware
from tests.unit.sharing import texts

A100 = hardware.gpu(0)
T4 = dataclasses.replace(hardware.gpu(1, model="Tesla T4"), memory_mib=15360)
CUT = hardware.mig_gpu(0, 2)
NAME = "NVIDIA-A100-SXM4-80GB"
RENAMED = "renameByDefault: true"


def shown(text: str, gpus: tuple[Gpu, ...]) -> str:
    """The values of product, count, replicas, strategy and memory, one after the other."""
    config = load.load(text)
    found = labels.labels(gpus, shares.shares(gpus, config).shares, config.mig_strategy)
    keys = ("product", "count", "replicas", "sharing-strategy", "memory")
    return " ".join(found[f"nvidia.com/gpu.{key}"] or "-" for key in keys)


@pytest.mark.parametrize(
    ("text", "gpus", "expected"),
    [
        pytest.param("", (A100,), f"{NAME} 1 1 none 81920", id="unshared"),
        pytest.param(
            texts.gpu("replicas: 4"),
            (A100,),
            f"{NAME}-SHARED 1 4 time-slicing 81920",
            id="D3-1-shared",
        ),
        pytest.param(
            texts.sliced("name: gpu, replicas: 4", options=RENAMED),
            (A100,),
            f"{NAME} 1 4 time-slicing 81920",
            id="D3-2-renamed",
        ),
        pytest.param(
            texts.sliced("name: gpu, replicas: 50", options=RENAMED),
            (A100,),
            f"{NAME} 1 50 time-slicing 81920",
            id="U079-renamed-x50",
        ),
        pytest.param(
            "flags: {migStrategy: single}\n" + texts.gpu("replicas: 2")[12:],
            (CUT,),
            f"{NAME}-MIG-1g.10gb-SHARED 2 2 time-slicing 9728",
            id="D3-3-single",
        ),
        pytest.param(
            "flags: {migStrategy: single}",
            (CUT, hardware.gpu(1)),
            f"{NAME}-MIG-INVALID 0 0 - 0",
            id="D3-4-single-invalid",
        ),
        pytest.param(
            texts.gpu("replicas: 2"),
            (CUT,),
            f"{NAME} 1 0 none 81920",
            id="D3-6-U085-none",
        ),
        pytest.param(
            texts.gpu("replicas: 2"),
            (CUT, hardware.gpu(1)),
            f"{NAME}-SHARED 2 2 time-slicing 81920",
            id="D3-7-one-cut-one-whole",
        ),
        pytest.param(
            texts.sliced("name: mig-1g.5gb, replicas: 2"),
            (A100,),
            f"{NAME} 1 1 none 81920",
            id="D3-8-absent-resource",
        ),
        pytest.param(
            texts.gpu("replicas: 5"),
            (A100, T4),
            f"{NAME}-SHARED 1 5 time-slicing 81920",
            id="D3-12-U083-first-model-by-index",
        ),
        pytest.param(
            texts.gpu("replicas: 5, devices: [1]"),
            (A100, dataclasses.replace(A100, index=1, uuid="GPU-1")),
            f"{NAME}-SHARED 2 5 time-slicing 81920",
            id="second-gpu-shared",
        ),
        pytest.param(
            "sharing: {mps: {resources: [{name: gpu, replicas: 3}]}}",
            (A100,),
            f"{NAME}-SHARED 1 3 mps 81920",
            id="mps",
        ),
    ],
)
def test_labels_of_a_node(text: str, gpus: tuple[Gpu, ...], expected: str) -> None:
    """Text and GPUs in, five values out."""
    assert shown(text, gpus) == expected


def test_only_a_node_with_several_models_is_marked() -> None:
    """U083: the describing labels speak of one model, so the mixture is said besides."""
    unshared = load.load("")
    for gpus, marked in (((A100, T4), True), ((A100,), False)):
        made = shares.shares(gpus, unshared).shares
        assert (labels.MIXED_MODELS in labels.labels(gpus, made, unshared.mig_strategy)) is marked


MIXED = "flags: {migStrategy: mixed}\n"


def test_under_mixed_each_mig_resource_is_described_under_its_name() -> None:
    """U113: the numbers are those that the kubelet gets; whole GPUs are described beside them."""
    config = load.load(MIXED + texts.sliced("name: mig-1g.10gb, replicas: 3")[12:])
    gpus = (CUT, hardware.gpu(1))
    found = labels.labels(gpus, shares.shares(gpus, config).shares, config.mig_strategy)
    prefix = "nvidia.com/mig-1g.10gb."
    assert {key: value for key, value in found.items() if key.startswith(prefix)} == {
        f"{prefix}product": f"{NAME}-MIG-1g.10gb-SHARED",
        f"{prefix}count": "2",
        f"{prefix}replicas": "3",
        f"{prefix}sharing-strategy": "time-slicing",
        f"{prefix}memory": "9728",
        f"{prefix}multiprocessors": "14",
        f"{prefix}slices.gi": "1",
        f"{prefix}slices.ci": "1",
        f"{prefix}engines.copy": "1",
        **{f"{prefix}engines.{kind}": "0" for kind in ("decoder", "encoder", "jpeg", "ofa")},
    }
    assert (found["nvidia.com/gpu.count"], found["nvidia.com/gpu.replicas"]) == ("2", "1")
    assert found[labels.MIG_STRATEGY] == "mixed"


@pytest.mark.parametrize(
    ("text", "strategy"), [("", None), ("flags: {migStrategy: single}", "single")]
)
def test_a_mig_strategy_is_named_where_there_is_one(text: str, strategy: str | None) -> None:
    """Single describes MIG devices as GPUs, none says nothing of them."""
    config = load.load(text)
    found = labels.labels((CUT,), shares.shares((CUT,), config).shares, config.mig_strategy)
    assert found.get(labels.MIG_STRATEGY) == strategy
    assert not [label for label in found if label.startswith("nvidia.com/mig-")]


def test_labels_of_parts_that_are_gone_are_ours_and_others_are_not() -> None:
    """So they can be taken away, and nobody else's are."""
    gone = "nvidia.com/mig-3g.40gb.count"
    others = {"nvidia.com/mig.config", "nvidia.com/mig.config.state", "nvidia.com/gpu.machine"}
    size = "nvidia.com/mig-1g.10gb.me.slices.gi"
    found = labels.ours({gone, size, "nvidia.com/mig-3g.40gb.special", *others})
    assert {gone, size} <= found
    assert labels.MIXED_MODELS in found
    assert not found & others
    assert "nvidia.com/mig-3g.40gb.special" not in found


def test_a_node_without_gpus_has_no_labels() -> None:
    """Nothing to describe, nothing written."""
    assert labels.labels((), (), load.load("").mig_strategy) == {}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("NVIDIA A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB"),
        ("  NVIDIA   RTX (TM)  6000/Ada ", "NVIDIA-RTX-TM-6000Ada"),
        ("NVIDIA GeForce RTX™ 4090", "NVIDIA-GeForce-RTX-4090"),
        ("_odd.", "odd"),
        ("G" * 80, "G" * 63),
        ("G" * 62 + " tail", "G" * 62),
    ],
)
def test_a_product_becomes_a_label_value(model: str, expected: str) -> None:
    """D3 rule 9, within what Kubernetes takes as a label value."""
    assert labels.product(model) == expected


def test_the_suffix_survives_a_long_product_name() -> None:
    """The name is cut, not the word that says it is shared."""
    gpus = (hardware.gpu(0, model="G" * 80),)
    value = shown(texts.gpu("replicas: 2"), gpus).partition(" ")[0]
    assert value == "G" * 56 + "-SHARED"
