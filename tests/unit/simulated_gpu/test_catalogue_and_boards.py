"""Specifications become GPUs that real NVML could show; all others are refused with a reason."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from shared.simulation.gpu import boards, catalogue

MIG_MODELS = 14
WITHOUT_MIG = ("t4", "v100-16gb", "a10", "l4", "l40s")


def cut(model: str, *instances: tuple[str, int]) -> dict[str, Any]:
    return {
        "model": model,
        "instances": [{"profile": profile, "start": start} for profile, start in instances],
    }


def test_all_models_are_there() -> None:
    """Fourteen that can do MIG, five that cannot."""
    models = catalogue.models()
    assert sum(model.layout is not None for model in models.values()) == MIG_MODELS
    assert [name for name, model in models.items() if model.layout is None] == list(WITHOUT_MIG)


@pytest.mark.parametrize("name", list(catalogue.models()))
def test_a_model_fits_itself(name: str) -> None:
    """Every profile's placements stay inside the board, ids and numbers are its own."""
    model = catalogue.models()[name]
    assert model.layout is not None or not model.profiles
    units = model.layout.units if model.layout else 0
    for profile in model.profiles:
        assert all(0 <= start <= units - profile.size for start in profile.starts)
        assert 0 < profile.most <= len(profile.starts)
        assert profile.memory_mib is None or profile.memory_mib < model.memory_mib
    assert len({profile.id for profile in model.profiles}) == len(model.profiles)
    assert len({profile.number for profile in model.profiles}) == len(model.profiles)


@pytest.mark.parametrize("name", list(catalogue.models()))
def test_every_model_can_stand_in_a_node(name: str) -> None:
    """A name alone is a whole GPU with the first board's product and PCI id."""
    (gpu,) = boards.build("node", [name])
    board = catalogue.models()[name].boards[0]
    assert (gpu.product, gpu.pci_device >> 16) == (board.product, board.device)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100-80gb"),
        ("a100-sxm4-80gb", "a100-80gb"),
        ("NVIDIA-A100-80GB-PCIe-SHARED", "a100-80gb"),
        ("A100-PCIE-40GB", "a100-40gb"),
        ("Tesla T4", "t4"),
        ("nvidia-h200", "h200-141gb"),
        ("l40", "l40s"),
    ],
)
def test_a_name_of_the_shop_is_answered_with_the_model(name: str, model: str) -> None:
    """As `nvidia-smi -L` or a node's label has it, in whatever order and case."""
    with pytest.raises(catalogue.UnknownModelError, match=f'did you mean "{model}"'):
        catalogue.model(name)


def test_uuids_are_made_of_node_index_and_model() -> None:
    """The same specification gives the same UUIDs, another node others."""
    gpus = boards.build("gpu-a.example", ["t4", "t4"])
    names = [f"gpu-a.example/{index}/t4" for index in range(2)]
    assert [gpu.uuid for gpu in gpus] == [
        f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, name)}" for name in names
    ]
    assert len({gpu.pci_bus_id for gpu in gpus}) == 2


def test_what_a_specification_says_is_taken() -> None:
    """UUID, memory, PCI id (with its product), mode and profile ids can be given."""
    (gpu,) = boards.build(
        "node",
        [
            {
                "model": "a100-80gb",
                "uuid": "GPU-11111111-2222-3333-4444-555555555555",
                "memoryMiB": 81000,
                "pciDevice": "0x20B510DE",
                "migMode": True,
                "profileIds": {"1g.10gb": 119},
                "profileNames": {"3g.40gb": "3g.39gb"},
            }
        ],
    )
    assert gpu.uuid == "GPU-11111111-2222-3333-4444-555555555555"
    assert (gpu.memory_mib, gpu.mig_mode) == (81000, True)
    assert (gpu.product, gpu.pci_device) == ("NVIDIA A100 80GB PCIe", 0x20B510DE)
    assert {profile.name: profile.id for profile in gpu.profiles}["1g.10gb"] == 119
    assert {profile.kind: profile.name for profile in gpu.profiles}["3g"] == "3g.39gb"


def test_halves_are_swapped_on_every_second_gpu() -> None:
    """GPU instance ids differ between boards of one host, as they do in reality."""
    plain, swapped = boards.build("node", [cut("a100-80gb", ("3g.40gb", 4), ("1g.10gb", 2))] * 2)
    assert [each.number for each in plain.instances] == [2, 9]
    assert [each.number for each in swapped.instances] == [1, 13]


@pytest.mark.parametrize(
    "spec",
    [
        cut("a100-40gb", *(("1g.5gb", start) for start in range(7))),
        cut("h100-sxm-80gb", ("3g.40gb", 4), ("2g.20gb", 0), ("2g.20gb", 2)),
        cut("h200-141gb", ("2g.35gb", 0), ("2g.35gb", 2), ("2g.35gb", 4), ("1g.35gb", 6)),
        cut("a30-24gb", ("2g.12gb", 0), ("1g.6gb", 2), ("1g.6gb+me", 3)),
        cut("rtx-pro-6000-blackwell-96gb", ("1g.24gb+me.all", 0), ("1g.24gb-me", 3)),
    ],
    ids=lambda spec: spec["model"],
)
def test_layouts_that_the_board_allows_are_built(spec: dict[str, Any]) -> None:
    """Instances stand where they were put, each with a MIG UUID of its own."""
    (gpu,) = boards.build("node", [spec])
    assert [(each.profile.name, each.start) for each in gpu.instances] == [
        (row["profile"], row["start"]) for row in spec["instances"]
    ]
    assert len({compute.uuid for _, compute in gpu.mig_devices}) == len(gpu.instances)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("a100-80", 'did you mean "a100-80gb"?'),
        ({"uuid": "GPU-1"}, "neither a catalogue name nor a map with a model"),
        ({"model": "t4", "memoryMib": 1}, "unknown key 'memoryMib': write memoryMiB"),
        ({"model": "t4", "migMode": True}, "a t4 cannot do MIG"),
        ({"model": "a30-24gb", "migMode": "yes"}, "write on or off"),
        ({"model": "a30-24gb", "pciDevice": "x"}, "write the id, such as 0x20B2"),
        ({"model": "a30-24gb", "profileIds": {"9g": 1}}, "profileIds names '9g'"),
        ({"model": "a30-24gb", "profileNames": {"9g": "8g"}}, "profileNames names '9g'"),
        ({**cut("a30-24gb", ("1g.6gb", 0)), "migMode": False}, "instances need MIG mode"),
        (cut("a30-24gb", ("1g.7gb", 0)), "has no profile '1g.7gb', it has 1g.6gb"),
        ({"model": "a30-24gb", "instances": ["1g.6gb"]}, "write {profile: <name>, start"),
        (cut("a100-80gb", ("3g.40gb", 1)), r"may start at \(0, 4\), not at 1"),
        (cut("a100-80gb", ("3g.40gb", 0), ("1g.10gb", 3)), "needs units that another"),
        (cut("a100-80gb", ("1g.10gb+me", 0), ("1g.10gb+me", 1)), "has room for 1 of 1g.10gb"),
        (cut("a30-24gb", ("1g.6gb+me", 0), ("2g.12gb+me", 2)), "only one instance of a GPU"),
        (cut("gb300-278gb", ("1g.35gb", 0)), "nobody published how large a 1g.35gb is"),
        (
            cut("rtx-pro-6000-blackwell-96gb", ("1g.24gb+me.all", 0), ("1g.24gb", 3)),
            "the others must be -me",
        ),
    ],
)
def test_what_nvml_could_not_show_is_refused(spec: Any, words: str) -> None:
    """The sentence names the GPU and the node, and what to write."""
    with pytest.raises(boards.SpecError, match=f"GPU 0 of gpu-a: .*{words}"):
        boards.build("gpu-a", [spec])


def test_one_uuid_stands_for_one_gpu() -> None:
    """A UUID given twice is refused."""
    spec = {"model": "t4", "uuid": "GPU-11111111-2222-3333-4444-555555555555"}
    with pytest.raises(boards.SpecError, match="two GPUs of node have the same UUID"):
        boards.build("node", [spec, spec])
