"""MIG changes from the loop: one call at a time, within a deadline, never made twice."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from shared.nvml import errors
from shared.nvml.changes import Changes
from shared.nvml.driver import PynvmlDriver
from shared.nvml.threads import Nvml
from shared.nvml.writing import PynvmlWriter
from shared.simulation.gpu.local import LocalTransport
from tests.support.eventually import eventually
from tests.support.simulated_nvml import simulated_nvml

CUT = {"model": "a100-80gb", "instances": [{"profile": "1g.10gb", "start": 0}]}
DESTROY = "nvmlGpuInstanceDestroy"


@pytest.fixture
def node() -> Iterator[LocalTransport]:
    with simulated_nvml(CUT, CUT) as transport:
        yield transport


@contextlib.asynccontextmanager
async def opened(deadline_s: float = 30.0) -> AsyncIterator[tuple[Nvml, Changes]]:
    nvml = Nvml(PynvmlDriver(), listen_s=0.05)
    await nvml.open()
    try:
        yield nvml, Changes(nvml, PynvmlWriter(), deadline_s=deadline_s)
    finally:
        await nvml.close()


async def test_a_gpu_is_cut_anew_and_seen_so(node: LocalTransport) -> None:
    """Instances go and come, and the next look has them, on that GPU alone."""
    async with opened() as (nvml, changes):
        first, second = (await nvml.observe()).gpus
        board = await changes.board(first)
        (old,) = await changes.instances(first)
        assert await changes.processes(first) == ()
        await changes.destroy_instance(first, old.id)
        made = await changes.create_instance(first, board.profile("3g.40gb"), 4)
        now = (await nvml.observe()).gpus
        assert [each.uuid for each in now[0].mig_devices] == list(made.devices)
        assert now[1] == second
        assert list(node.describe()["writes"]) == ["0"]


async def test_the_mode_changes_with_a_look(node: LocalTransport) -> None:
    """What was asked for is what the next look shows."""
    async with opened() as (nvml, changes):
        gpu = (await nvml.observe()).gpus[0]
        for instance in await changes.instances(gpu):
            await changes.destroy_instance(gpu, instance.id)
        assert (await changes.set_mig_mode(gpu, on=False)).in_force
        assert not (await nvml.observe()).gpus[0].mig_enabled


async def test_a_change_that_does_not_return_is_not_made_again(node: LocalTransport) -> None:
    """The GPU counts as silent, another can still be changed; what was asked for may come."""
    slow = {"nvml": {"call": DESTROY, "gpu": 0, "delay": "never"}}
    async with opened(deadline_s=1.0) as (nvml, changes):
        first, second = (await nvml.observe()).gpus
        node.fault(slow)
        (doomed,) = await changes.instances(first)
        with pytest.raises(errors.SilentError, match=r"call on GPU 0 has not returned within 1 s"):
            await changes.destroy_instance(first, doomed.id)
        with pytest.raises(errors.SilentError):
            await changes.instances(first)
        (other,) = await changes.instances(second)
        await changes.destroy_instance(second, other.id)
        node.heal(slow)
        await eventually(lambda: not node.describe()["gpus"][0]["gpuInstances"])
        await anext(nvml.events())
        assert await changes.instances(first) == ()
        assert node.describe()["writes"]["0"][DESTROY] == 1


async def test_a_refusal_is_told_once_and_not_asked_again(node: LocalTransport) -> None:
    """A passing error of a look is asked twice; of a change it is the caller's to decide."""
    node.fault({"nvml": {"call": DESTROY, "error": "UNKNOWN"}})
    async with opened() as (nvml, changes):
        gpu = (await nvml.observe()).gpus[0]
        (doomed,) = await changes.instances(gpu)
        with pytest.raises(errors.NvmlError, match="UNKNOWN while destroying instance"):
            await changes.destroy_instance(gpu, doomed.id)
        assert node.describe()["writes"]["0"][DESTROY] == 1


async def test_changes_wait_for_each_other_and_need_an_open_nvml(node: LocalTransport) -> None:
    """Started together they are made in turn; after NVML was let go there is nothing to call."""
    async with opened() as (nvml, changes):
        gpu = (await nvml.observe()).gpus[0]
        profile = (await changes.board(gpu)).profile("1g.10gb")
        async with asyncio.TaskGroup() as tasks:
            for start in range(1, 7):
                tasks.create_task(changes.create_instance(gpu, profile, start))
        assert len(await changes.instances(gpu)) == 7
        await nvml.close()
        with pytest.raises(errors.AwayError, match="open it first"):
            await changes.instances(gpu)
