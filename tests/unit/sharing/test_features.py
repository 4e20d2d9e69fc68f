"""Labels that tell of hardware and driver, as GPU Feature Discovery writes them (D1, D3)."""

from __future__ import annotations

import dataclasses
import re

import pytest

from shared.domain.gpu import Gpu
from shared.sharing import features, labels, load, shares
from tests.support import hardware

WHOLE = hardware.gpu(0)
CUT = hardware.mig_gpu(0, 2)
MPS = "sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}\n"


def shown(gpus: tuple[Gpu, ...], text: str = "") -> dict[str, str]:
    """All labels of a node with these GPUs, short."""
    config = load.load(text)
    found = labels.labels(gpus, shares.shares(gpus, config).shares, config.mig_strategy)
    found |= features.versions("550.107.02", (12, 5))
    return {name.removeprefix("nvidia.com/"): value for name, value in found.items()}


# Names and forms of the expected files of GPU Feature Discovery, with what no inventory tells left
# out: gfd.timestamp, gpu.machine, gpu.mode.
PLAIN = {
    "cuda.driver.major": "[0-9]+",
    "cuda.driver.minor": "[0-9]+",
    "cuda.driver.rev": "[0-9]*",
    "cuda.runtime.major": "[0-9]+",
    "cuda.runtime.minor": "[0-9]+",
    "cuda.driver-version.major": "[0-9]+",
    "cuda.driver-version.minor": "[0-9]+",
    "cuda.driver-version.revision": "[0-9]*",
    "cuda.driver-version.full": r"[0-9]+\.[0-9]+\.[0-9]+",
    "cuda.runtime-version.major": "[0-9]+",
    "cuda.runtime-version.minor": "[0-9]+",
    "cuda.runtime-version.full": r"[0-9]+\.[0-9]+",
    "gpu.count": "[0-9]+",
    "gpu.replicas": "[0-9]+",
    "gpu.sharing-strategy": "none|mps|time-slicing",
    "gpu.product": "[A-Za-z0-9][-A-Za-z0-9_.]*[A-Za-z0-9]",
    "gpu.memory": "[0-9]+",
    "gpu.family": "[a-z]+(-[a-z]+)?",
    "gpu.compute.major": "[0-9]+",
    "gpu.compute.minor": "[0-9]+",
    "mig.capable": "true|false",
    "mps.capable": "true|false",
}
STRATEGY = {"mig.strategy": "none|single|mixed"}
PART = {"multiprocessors": "[0-9]+", "slices.gi": "[0-9]+", "slices.ci": "[0-9]+"}
PART |= {f"engines.{kind}": "[0-9]+" for kind in ("copy", "decoder", "encoder", "jpeg", "ofa")}
GROUP = {name[4:]: PLAIN[name] for name in PLAIN if re.match("gpu.[cprsm](?!ompute)", name)}
SINGLE = PLAIN | STRATEGY | {f"gpu.{name}": form for name, form in PART.items()}
MIXED = PLAIN | STRATEGY | {f"mig-1g.10gb.{name}": form for name, form in (GROUP | PART).items()}


@pytest.mark.parametrize(
    ("gpus", "text", "expected"),
    [
        pytest.param((WHOLE,), "", PLAIN, id="none"),
        pytest.param((CUT,), "flags: {migStrategy: single}", SINGLE, id="single"),
        pytest.param((CUT,), "flags: {migStrategy: mixed}", MIXED, id="mixed"),
    ],
)
def test_d1_each_strategy_has_its_set_of_labels(
    gpus: tuple[Gpu, ...], text: str, expected: dict[str, str]
) -> None:
    """No more, no less, and each value whole."""
    found = shown(gpus, text)
    assert found.keys() == expected.keys()
    odd = {name: found[name] for name in found if not re.fullmatch(expected[name], found[name])}
    assert odd == {}


def test_u085_a_cut_gpu_under_strategy_none_tells_no_architecture() -> None:
    """Neither family nor compute capability, as in NVIDIA's unit tests."""
    found = shown((CUT,))
    assert not [name for name in found if name.startswith(("gpu.family", "gpu.compute"))]
    assert found["mig.capable"] == "true"


@pytest.mark.parametrize(
    ("capability", "family"),
    [
        ((3, 7), "undefined"),
        ((5, 2), "maxwell"),
        ((6, 1), "pascal"),
        ((7, 0), "volta"),
        ((7, 2), "volta"),
        ((7, 5), "turing"),
        ((8, 0), "ampere"),
        ((8, 6), "ampere"),
        ((8, 9), "ada-lovelace"),
        ((9, 0), "hopper"),
        ((10, 3), "blackwell"),
        ((11, 0), "undefined"),
        ((12, 0), "blackwell"),
        ((13, 0), "rubin"),
        ((14, 0), "undefined"),
    ],
)
def test_d3_10_the_family_follows_from_the_compute_capability(
    capability: tuple[int, int], family: str
) -> None:
    """Pods select by it."""
    found = shown((dataclasses.replace(WHOLE, compute_capability=capability),))
    assert found["gpu.family"] == family
    assert (found["gpu.compute.major"], found["gpu.compute.minor"]) == tuple(map(str, capability))


def test_the_architecture_is_that_of_the_gpu_that_the_product_names() -> None:
    """The first whole one, whatever stands before it."""
    other = dataclasses.replace(hardware.gpu(1, model="NVIDIA L4"), compute_capability=(8, 9))
    found = shown((CUT, other))
    assert (found["gpu.product"], found["gpu.family"]) == ("NVIDIA-L4", "ada-lovelace")


@pytest.mark.parametrize(
    ("gpus", "text", "capable"),
    [
        pytest.param((WHOLE,), "", "false", id="not asked for"),
        pytest.param((WHOLE,), MPS, "true", id="asked for"),
        pytest.param(
            (CUT, hardware.gpu(1)),
            f"flags: {{migStrategy: mixed}}\n{MPS}",
            "false",
            id="beside MIG",
        ),
    ],
)
def test_d3_13_mps_needs_its_strategy_and_no_mig(
    gpus: tuple[Gpu, ...], text: str, capable: str
) -> None:
    """NVIDIA's MPS daemons go where the label is true."""
    assert shown(gpus, text)["mps.capable"] == capable


def test_a_gpu_that_cannot_do_mig_is_not_capable_of_it() -> None:
    """One that can is enough for the node."""
    plain = dataclasses.replace(WHOLE, mig_mode=None)
    assert shown((plain,))["mig.capable"] == "false"
    assert shown((plain, hardware.gpu(1)))["mig.capable"] == "true"


@pytest.mark.parametrize(
    ("driver", "revision"), [("550.107.02", "02"), ("575.51", ""), ("575", None), ("", None)]
)
def test_a_version_has_two_or_three_numbers(driver: str, revision: str | None) -> None:
    """One of another form has no labels: nothing is invented."""
    found = features.versions(driver, (12, 5))
    assert found.get("nvidia.com/cuda.driver.rev") == revision
    assert found.get("nvidia.com/cuda.driver-version.revision") == revision
    assert found.get("nvidia.com/cuda.driver-version.full", "") == (driver if found else "")


def test_all_of_them_are_ours_to_take_away() -> None:
    """Also those that only another strategy has."""
    found = {f"nvidia.com/{name}" for name in (*PLAIN, *SINGLE, *MIXED)}
    assert found <= labels.ours(found)
