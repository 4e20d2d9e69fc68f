"""Which instances the simulated driver makes, where, and with which code it refuses others."""

from __future__ import annotations

import pytest

from shared.nvml.errors import Code
from shared.simulation.gpu import capabilities, catalogue, rules
from shared.simulation.gpu.state import Gpu
from tests.unit.simulated_gpu import raw
from tests.unit.simulated_gpu.raw import Raw, mig, of_kinds

A100, A30, RTX = "a100-80gb", "a30-24gb", "rtx-pro-6000-blackwell-96gb"
FEASIBLE = [
    (A100, "7g"),
    (A100, "4g 3g"),
    (A100, "4g 2g 1g"),
    (A100, "4g 1g 1g 1g"),
    (A100, "3g 3g"),
    (A100, "3g 2g 1g 1g"),
    (A100, "3g 2g 2g"),
    (A100, "3g 1g 1g 1g 1g"),
    (A100, "2g 2g 2g 1g"),
    (A100, "2g 2g 1g 1g 1g"),
    (A100, "2g 1g 1g 1g 1g 1g"),
    (A100, "1g 1g 1g 1g 1g 1g 1g"),
    (A100, "1gx2 1gx2 1gx2 1gx2"),
    (A100, "2g 2g 2g 1gx2"),
    (A100, "3g 2g 1g 1g+me"),
    (A30, "4g"),
    (A30, "2g 2g"),
    (A30, "2g 1g 1g"),
    (A30, "1g 1g 1g 1g"),
    (A30, "2g 1g 1g+me"),
    (RTX, "4g"),
    (RTX, "2g 2g"),
    (RTX, "2g 1g 1g"),
    (RTX, "1g+gfx 1g+gfx 1g+gfx 1g+gfx"),
    (RTX, "2g+gfx 2g+gfx"),
    (RTX, "1g+me.all 1g-me 1g-me 1g-me"),
    (RTX, "2g+me.all 2g-me"),
]
INFEASIBLE = [
    (A100, "3g 3g 1g"),
    (A100, "4g 3g 1g"),
    (A100, "4g 4g"),
    (A100, "7g 1g"),
    (A100, "1g 1g 1g 1g 1g 1g 1g 1g"),
    (A100, "2g 2g 2g 2g"),
    (A100, "1g+me 1g+me"),
    (A100, "4g 2g 2g"),
    (A100, "1gx2 1gx2 1gx2 1gx2 1g"),
    (A100, "3g 3g 1gx2"),
    (A30, "4g 1g"),
    (A30, "2g 2g 1g"),
    (A30, "1g 1g 1g 1g 1g"),
    (A30, "1g+me 2g+me"),
    (RTX, "4g 1g"),
    (RTX, "1g+me.all 1g"),
    (RTX, "1g+me.all 2g+me.all"),
    (RTX, "2g 2g 1g"),
    (RTX, "1g+me 1g+me"),
]


def has_a_place(node: Raw, profiles: list[catalogue.Profile], after: int = -1) -> bool:
    """Look for starts, on the driver itself: equal profiles stand in rising order."""
    if not profiles:
        return True
    profile, *rest = profiles
    for start in (start for start in profile.starts if start > after):
        code, out = node.call(raw.PLACE, node.gpu, profile.id, start, profile.size)
        assert code in (Code.SUCCESS, Code.INSUFFICIENT_RESOURCES)
        if code is Code.SUCCESS:
            if has_a_place(node, rest, start if rest and rest[0] == profile else -1):
                return True
            node.call(raw.DESTROY, *out)
    return False


@pytest.mark.parametrize(("model", "kinds"), FEASIBLE)
def test_a_layout_of_the_tables_has_a_place(model: str, kinds: str) -> None:
    """Some choice of starts makes every instance of it."""
    profiles = [of_kinds(model)[kind] for kind in kinds.split()]
    assert has_a_place(Raw(mig(model)), profiles)


@pytest.mark.parametrize(("model", "kinds"), INFEASIBLE)
def test_an_impossible_layout_has_none(model: str, kinds: str) -> None:
    """Whatever the starts, some instance of it is refused for want of room."""
    profiles = [of_kinds(model)[kind] for kind in kinds.split()]
    assert not has_a_place(Raw(mig(model)), profiles)


@pytest.mark.parametrize(
    ("model", "kind", "starts"),
    [
        (A100, "1g", [6, 4, 5, 0, 1, 2, 3]),
        (A100, "2g", [4, 0, 2]),
        (A100, "3g", [4, 0]),
        (A30, "1g", [0, 1, 2, 3]),
    ],
)
def test_the_driver_fills_in_its_own_order(model: str, kind: str, starts: list[int]) -> None:
    """Without a placement; when all is full, there is no room."""
    node, profile = Raw(mig(model)), of_kinds(model)[kind]
    for _ in starts:
        node.made(raw.CREATE, node.gpu, profile.id)
    assert node.starts() == starts
    assert node.code(raw.CREATE, node.gpu, profile.id) is Code.INSUFFICIENT_RESOURCES


def test_the_order_matters_where_no_placement_is_given() -> None:
    """NVIDIA's own example: small ones first leave no room for the large one."""
    wrong, right = Raw(mig(A100)), Raw(mig(A100))
    assert [wrong.code(raw.CREATE, wrong.gpu, profile) for profile in (19, 19, 14, 9)] == [
        *[Code.SUCCESS] * 3,
        Code.INSUFFICIENT_RESOURCES,
    ]
    for profile in (9, 19, 14, 19):
        right.made(raw.CREATE, right.gpu, profile)


def test_what_cannot_be_is_told_from_what_has_no_room() -> None:
    """Start or size outside the list, and a profile of another board, are invalid."""
    node, one = Raw(mig(A100)), of_kinds(A100)["1g"]
    for args in ((one.id, 7, 1), (one.id, 0, 2), (99, 0, 1)):
        assert node.code(raw.PLACE, node.gpu, *args) is Code.INVALID_ARGUMENT
    assert node.code(raw.CREATE, node.gpu, 99) is Code.INVALID_ARGUMENT
    assert node.node.describe()["gpus"][0]["gpuInstances"] == []


def test_instances_need_the_mode() -> None:
    """Making, counting room and listing are not supported; places are listed all the same."""
    node, one = Raw(A100), of_kinds(A100)["1g"]
    assert node.place(one, 0) is Code.NOT_SUPPORTED
    for symbol in ("nvmlDeviceGetGpuInstanceRemainingCapacity", "nvmlDeviceGetGpuInstances"):
        assert node.code(symbol, node.gpu, one.id) is Code.NOT_SUPPORTED
    _, (places,) = node.call("nvmlDeviceGetGpuInstancePossiblePlacements_v2", node.gpu, one.id)
    assert places == [{"start": start, "size": 1} for start in range(7)]


def test_a_profile_that_nobody_published_is_not_offered() -> None:
    """A B300 shows no profiles, and makes none."""
    node = Raw(mig("b300-269gb"))
    assert node.code("nvmlDeviceGetGpuInstanceProfileInfoV", node.gpu, 0) is Code.NOT_SUPPORTED
    assert node.place(of_kinds("b300-269gb")["1g"], 0) is Code.NOT_SUPPORTED


def test_a_client_of_the_host_keeps_instances_from_being_made() -> None:
    """In use; when the client has gone, the same call succeeds. Other GPUs are not concerned."""
    node, one = Raw(mig(A100), mig(A100)), of_kinds(A100)["1g"]
    clients = {"clients": [{"gpu": 0, "name": "dcgm", "pid": 4711}]}
    node.node.fault(clients)
    assert node.place(one, 0) is Code.IN_USE
    _, (other,) = node.call(raw.HANDLE, 1)
    assert node.code(raw.PLACE, other, one.id, 0, 1) is Code.SUCCESS
    node.node.heal(clients)
    assert node.place(one, 0) is Code.SUCCESS


def test_room_is_counted_as_instances_come_and_go() -> None:
    """For each profile: how many of it would still fit."""
    node, kinds = Raw(mig(A100)), of_kinds(A100)

    def room(kind: str) -> int:
        _, (left,) = node.call(
            "nvmlDeviceGetGpuInstanceRemainingCapacity", node.gpu, kinds[kind].id
        )
        return int(left)

    assert [room(kind) for kind in ("1g", "1g+me", "2g", "3g", "7g")] == [7, 1, 3, 2, 1]
    node.place(kinds["3g"], 4)
    assert [room(kind) for kind in ("1g", "1g+me", "2g", "3g", "7g")] == [4, 1, 2, 1, 0]
    node.place(kinds["1g+me"], 0)
    assert [room(kind) for kind in ("1g", "1g+me", "2g", "3g", "7g")] == [3, 0, 1, 0, 0]


def test_a_gpu_instance_goes_after_its_compute_instances() -> None:
    """In use until then; a process keeps the compute instance, and with it the other."""
    node = Raw(mig(A100))
    instance = node.made(raw.CREATE, node.gpu, of_kinds(A100)["3g"].id)
    compute = node.made(raw.CREATE_COMPUTE, instance, 2)
    assert node.code(raw.DESTROY, instance) is Code.IN_USE
    uuid = node.node.describe()["gpus"][0]["instances"][0]["uuid"]
    node.node.start_process(uuid, 4711)
    assert node.code(raw.DESTROY_COMPUTE, compute) is Code.IN_USE
    node.node.end_process(4711)
    assert node.code(raw.DESTROY_COMPUTE, compute) is Code.SUCCESS
    assert node.code(raw.DESTROY, instance) is Code.SUCCESS
    assert node.code(raw.DESTROY, instance) is Code.INVALID_ARGUMENT, "the handle is dead"


@pytest.mark.parametrize("model", [A100, A30, RTX, "h100-sxm-80gb"])
def test_compute_instances_fill_their_gpu_instance(model: str) -> None:
    """Every width as often as it fits, then no more; parts name themselves."""
    for profile in catalogue.model(model).profiles:
        for part in profile.compute:
            node = Raw(mig(model))
            instance = node.made(raw.CREATE, node.gpu, profile.id)
            for _ in part.starts:
                node.made(raw.CREATE_COMPUTE, instance, part.number)
            full = node.code(raw.CREATE_COMPUTE, instance, part.number)
            assert full is Code.INSUFFICIENT_RESOURCES
            devices = node.node.describe()["gpus"][0]["instances"]
            assert [each["index"] for each in devices] == list(range(len(part.starts)))
            name = (
                profile.name if part.slices == profile.slices else f"{part.slices}c.{profile.name}"
            )
            assert {each["profile"] for each in devices} == {name}


def test_a_width_that_is_none_of_the_instances_is_invalid() -> None:
    """A 3g has no compute instance of four slices."""
    node = Raw(mig(A100))
    instance = node.made(raw.CREATE, node.gpu, of_kinds(A100)["3g"].id)
    assert node.code(raw.CREATE_COMPUTE, instance, 3) is Code.INVALID_ARGUMENT
    placed = "nvmlGpuInstanceCreateComputeInstanceWithPlacement"
    assert node.code(placed, instance, 0, 3, 1) is Code.INVALID_ARGUMENT
    assert node.code(placed, instance, 0, 2, 1) is Code.SUCCESS
    assert node.code(placed, instance, 1, 0, 2) is Code.SUCCESS
    info = "nvmlGpuInstanceGetComputeInstanceProfileInfoV"
    assert node.code(info, instance, 3, 0) is Code.NOT_SUPPORTED
    assert node.code(info, instance, 9, 0) is Code.INVALID_ARGUMENT


def test_a_gap_in_the_indexes_stays_until_it_is_filled() -> None:
    """A MIG device keeps its index when another goes; the next new one takes the gap."""
    node, one = Raw(mig(A100)), of_kinds(A100)["1g"]
    instances = [node.made(raw.CREATE, node.gpu, one.id) for _ in range(3)]
    computes = [node.made(raw.CREATE_COMPUTE, each, 0) for each in instances]
    by_index = "nvmlDeviceGetMigDeviceHandleByIndex"
    node.code(raw.DESTROY_COMPUTE, computes[1])
    codes = [node.code(by_index, node.gpu, index) for index in range(3)]
    assert codes == [Code.SUCCESS, Code.NOT_FOUND, Code.SUCCESS]
    node.made(raw.CREATE_COMPUTE, instances[1], 0)
    assert node.code(by_index, node.gpu, 1) is Code.SUCCESS


@pytest.mark.parametrize("index", [0, 1], ids=["plain", "swapped"])
def test_ids_of_gpu_instances_are_the_heaps(index: int) -> None:
    """Two numberings, of which no one can tell which it is; each number stands for one place."""
    seen: dict[int, tuple[int, int]] = {}
    for profile in catalogue.model(A100).profiles:
        model = catalogue.model(A100)
        gpu = Gpu(
            index=index,
            uuid="GPU-1",
            model=A100,
            product="",
            pci_device=0,
            memory_mib=model.memory_mib,
            compute_capability=(8, 0),
            layout=model.layout,
            profiles=model.profiles,
        )
        for start in profile.starts:
            place = (start, profile.size)
            assert seen.setdefault(rules.gpu_instance_id(gpu, profile, start), place) == place


def test_capability_numbers_are_the_drivers() -> None:
    """As a real driver's list has them; each stands for one instance."""
    known = {(0, 0, None): 3, (0, 0, 0): 4, (3, 3, 3): 439, (6, 11, 5): 918, (6, 11, 7): 920}
    assert {key: capabilities.minor(*key) for key in known} == known
    lines = capabilities.listing(8).splitlines()
    assert len({line.split()[1] for line in lines}) == len(lines) == 2 + 8 * 15 * 9
    assert "gpu6/gi11/ci7/access 920" in lines
