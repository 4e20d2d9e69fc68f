"""The name that was meant: what all names begin with makes none of them the nearest."""

from __future__ import annotations

import pytest

from shared.sharing import suggest

GPUS = ("nvidia.com/gpu", "nvidia.com/mig-1g.10gb")
PODS = ("default/serve", "default/train-8", "ml/train-7", "ml/web")


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("nvidia.com/gpus", GPUS, "nvidia.com/gpu"),
        ("nvidia.com/mig-1g.10g", GPUS, "nvidia.com/mig-1g.10gb"),
        ("nvidia.com/vram", GPUS, ""),
        ("amd.com/gpu", GPUS, "nvidia.com/gpu"),
        ("default/nothing", PODS, ""),
        ("default/web", PODS, "ml/web"),
        ("default/train-7", PODS, "ml/train-7"),
        ("default/trian-8", PODS, "default/train-8"),
        ("Replicas", ("replicas", "rename"), "replicas"),
        ("renamebydefault", ("renameByDefault",), "renameByDefault"),
        ("b", (), ""),
    ],
)
def test_the_nearest_name(name: str, known: tuple[str, ...], meant: str) -> None:
    """Empty where none comes near: a wrong guess sends people astray."""
    assert suggest.nearest(name, known) == meant


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("gpu-b", 'did you mean "gpu-b.lan"?'),
        ("GPU-50f4", 'did you mean "GPU-50f4-ff41"?'),
        ("h100", 'did you mean "h100-80gb" or "h100-nvl"?'),
        ("n", 'did you mean "n-9"?'),
    ],
)
def test_names_that_go_on_after_what_was_written(name: str, meant: str) -> None:
    """A few are all named, before a shorter one that looks alike."""
    many = [f"n-{number}" for number in range(20)]
    known = ["gpu-b.lan", "gpu-a", "GPU-50f4-ff41", "h100-80gb", "h100-nvl", "h10", *many]
    assert suggest.did_you_mean(name, known) == meant


def test_a_fleet_is_not_listed_to_its_end() -> None:
    """Who mistypes a node's name wants no thousand names."""
    nodes = [f"node-{number:03}" for number in range(300)]
    assert suggest.among("gpu", nodes) == f"known: {', '.join(nodes[:10])} and 290 more"
    assert suggest.among("nodes-007", nodes) == 'did you mean "node-007"?'
    assert suggest.among("gpu", ["b", "a"]) == "known: a, b"
