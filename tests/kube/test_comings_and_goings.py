"""Slots while the real kubelet, API server, or a part of ours goes away and comes back."""

from __future__ import annotations

import asyncio

from shared.contract.messages import FactKind
from tests.kube import ours
from tests.kube.ours import Ours
from tests.suites.device_manager import devices
from tests.support.eventually import eventually
from tests.support.plugin import Plugin


async def test_a_restarted_kubelet_gets_everything_back(slicewire: Ours) -> None:
    """Pods keep their slots, the rest is there for others, and no slot goes to two."""
    node = slicewire.node
    await ours.run(node, "a", "b")
    before = {name: set(held) for name, held in (await node.holders()).items()}
    await node.kubelet.restart()

    async def is_offered() -> bool:
        return len(await node.offered()) == 8  # the node object may still say what was before

    await eventually(is_offered, within=node.patience)
    await ours.run(node, "c", "d")
    held = {name: set(ids) for name, ids in (await node.holders()).items()}
    assert {name: held[name] for name in before} == before
    assert len(set.union(*held.values())) == 4
    assert await ours.restarts(node, "a", "b") == [0, 0]


async def test_an_allocator_is_replaced_under_running_pods(slicewire: Ours) -> None:
    """The next one waits for the lock; a pod that comes meanwhile runs as well."""
    node, services = slicewire.node, slicewire.services
    await ours.run(node, "a", "b", "c")
    await services["allocator-next"].start()
    await asyncio.gather(services["allocator"].stop(), ours.run(node, "arriving"))
    await node.until_counts((8, 8))
    await ours.run(node, "after")
    held = [ids for entries in (await node.holders()).values() for _, ids in entries]
    assert len(set(held)) == 5
    assert await ours.restarts(node, "a", "b", "c") == [0, 0, 0]


async def test_an_api_server_that_was_away_is_followed_again(slicewire: Ours) -> None:
    """A text that is written after its return arrives, though all it remembered is gone."""
    control = slicewire.node.cluster.control
    await asyncio.to_thread(control.stop_apiserver)
    await asyncio.to_thread(control.compact)
    await asyncio.to_thread(control.start_apiserver)
    await slicewire.share(ours.text(6))
    await slicewire.node.until_counts((12, 12))


async def test_a_bus_that_lost_everything_is_filled_again(slicewire: Ours) -> None:
    """Slots stay meanwhile, and the next text arrives."""
    await slicewire.broker.restart(lose_store=True)
    assert await slicewire.node.counts() == (8, 8)
    await slicewire.share(ours.text(2))
    await slicewire.node.until_counts((4, 4))


async def test_an_allocator_waits_for_a_kubelet_and_follows_each_new_one(slicewire: Ours) -> None:
    """However often it comes and goes, one registration counts in the end."""
    node, services = slicewire.node, slicewire.services
    await services["allocator"].stop()
    await node.kubelet.stop()
    await services["allocator"].start()
    await node.kubelet.start()
    await node.until_counts((8, 8))
    await node.kubelet.kill()
    await node.kubelet.start()
    await node.kubelet.restart()

    async def is_offered() -> bool:
        return len(await node.offered()) == 8

    await eventually(is_offered, within=node.patience)
    assert services["allocator"].ended_badly == ""
    await ours.run(node, "a")


async def test_a_foreign_plugin_is_told_of_and_outlived(slicewire: Ours) -> None:
    """It takes the resource over, as the last one does; when it ends, ours serves again."""
    node = slicewire.node
    async with Plugin(node.plugins, devices(5), endpoint="foreign.sock"):
        await node.until_counts((5, 5))
        (sentence,) = await eventually(
            lambda: slicewire.facts(FactKind.TAKEN_OVER), within=node.patience
        )
        assert "foreign.sock" in sentence
    await node.until_counts((8, 8))
    await ours.run(node, "a")
