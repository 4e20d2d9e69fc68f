"""Plans carried out on the simulated driver: they end as planned, what stays is untouched."""

from __future__ import annotations

import random

import pytest

from shared.domain.gpu import Gpu
from shared.geometry import builtin, place, plan
from shared.geometry.board import Board, Instance
from shared.geometry.config import Wanted
from shared.nvml.driver import PynvmlDriver
from shared.nvml.port import GpuInstance
from shared.nvml.writing import PynvmlWriter
from shared.simulation.gpu import catalogue
from tests.support import cuts
from tests.support.simulated_nvml import simulated_nvml

PUBLISHED = tuple(
    name
    for name in cuts.MODELS
    if any(profile.published for profile in catalogue.model(name).profiles)
)
STARTS, REQUESTS = 20, 10  # requests follow each other from each start


def wants(board: Board, chance: random.Random) -> Wanted:
    """A random multiset that fits the board."""
    names = [profile.name for profile in board.profiles]
    counts: dict[str, int] = {}
    for name in chance.choices(names, k=chance.randint(1, 9)):
        more = counts | {name: counts.get(name, 0) + 1}
        counts = counts if place.fit(board, more) is None else more
    return Wanted(enabled=True, counts=tuple(sorted(counts.items())))


def standing(gpu: Gpu, writer: PynvmlWriter) -> dict[Instance, GpuInstance]:
    """What stands on the GPU, by place."""
    return {Instance(each.profile, each.start): each for each in writer.instances(gpu)}


def carry_out(gpu: Gpu, board: Board, steps: plan.Plan, writer: PynvmlWriter) -> None:
    """Destroy, then create, as an agent does."""
    there = standing(gpu, writer)
    for instance in steps.destroy:
        writer.destroy_instance(gpu, there[instance].id)
    for instance in steps.create:
        writer.create_instance(gpu, board.profile(instance.profile), instance.start)


def change(gpu: Gpu, board: Board, wanted: Wanted, writer: PynvmlWriter, busy: float) -> None:
    """Plan, carry out, and compare with what NVML shows then."""
    before = standing(gpu, writer)
    chance = random.Random(len(before) + len(wanted.counts))
    current = plan.Current(
        enabled=True,
        standing=tuple(
            plan.Standing(each, ("team/a",) if chance.random() < busy else ()) for each in before
        ),
    )
    steps = plan.towards(board, current, wanted)
    carry_out(gpu, board, steps, writer)
    after = standing(gpu, writer)
    assert tuple(sorted(after, key=lambda each: each.start)) == steps.after
    assert cuts.multiset(steps.after) == wanted.counts
    assert all(after[instance] == before[instance] for instance in steps.keep)


@pytest.mark.parametrize("model", PUBLISHED)
def test_random_requests_end_as_planned(model: str) -> None:
    """From random layouts, some of their instances held."""
    chance = random.Random(model)
    for _ in range(STARTS):
        with simulated_nvml({"model": model, "migMode": True}):
            driver, writer = PynvmlDriver(), PynvmlWriter()
            driver.open()
            gpu = driver.gpu(0)
            board = writer.board(gpu)
            for _ in range(REQUESTS):
                change(gpu, board, wants(board, chance), writer, busy=0.5)
            driver.close()


@pytest.mark.parametrize("model", PUBLISHED)
def test_every_built_in_name_ends_as_planned(model: str) -> None:
    """One after the other on one GPU, and all disabled at the end leaves nothing."""
    with simulated_nvml({"model": model, "migMode": True}):
        driver, writer = PynvmlDriver(), PynvmlWriter()
        driver.open()
        gpu = driver.gpu(0)
        board = writer.board(gpu)
        for name in builtin.names((board,)):
            wanted = builtin.wanted(name, board)
            assert wanted is not None
            change(gpu, board, wanted, writer, busy=0.0)
        driver.close()


@pytest.mark.parametrize("model", PUBLISHED)
def test_a_board_read_from_nvml_is_that_of_the_catalogue(model: str) -> None:
    """Names, ids, placements and sizes come through the C boundary as they are."""
    with simulated_nvml(model):
        driver = PynvmlDriver()
        driver.open()
        read = PynvmlWriter().board(driver.gpu(0))
        driver.close()
    known = cuts.board(model)
    published = {each.name for each in catalogue.model(model).profiles if each.published}
    sized = {each.name: each for each in known.profiles if each.name in published}
    assert {each.name: each for each in read.profiles} == sized
    assert [each.id for each in read.profiles] == [sized[each.name].id for each in read.profiles]
    assert read.memory_mib == known.memory_mib
