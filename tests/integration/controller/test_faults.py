"""Whatever goes away comes back to the same intents: API server, bus, its store, the leader."""

from __future__ import annotations

import asyncio
import pathlib

from shared.contract import names
from shared.contract.messages import ConfigState
from shared.simulation.kube.apiserver import kinds
from tests.integration.controller import cluster
from tests.integration.controller import whole as parts
from tests.integration.controller.whole import CONFIG_LABEL, NODE, text
from tests.support.eventually import eventually


async def test_an_api_server_that_restarts_is_followed_again(tmp_path: pathlib.Path) -> None:
    """What was edited while the watches were down arrives; nothing else is written."""
    async with parts.running(tmp_path) as whole:
        whole.at.add_node(NODE, {CONFIG_LABEL: "any"})
        await whole.config({"any": text(8)})
        whole.start()
        await eventually(lambda: whole.replicas() == 8)
        await whole.at.server.stop()
        edited = {"metadata": {"name": "sharing"}, "data": {"any": text(4)}}
        whole.at.server.objects.replace(kinds.CONFIG_MAP, cluster.NAMESPACE, "sharing", edited)
        await asyncio.sleep(0)
        await whole.at.server.start()
        await eventually(lambda: whole.replicas() == 4)
        assert len(whole.intents[NODE]) == 2


async def test_a_lost_store_is_filled_again(tmp_path: pathlib.Path) -> None:
    """The bus comes back empty: the leader makes the buckets and its intent stands again."""
    async with parts.running(tmp_path) as whole:
        whole.at.add_node(NODE, {CONFIG_LABEL: "any"})
        await whole.config({"any": text(8)})
        whole.start()
        before = await whole.wanted()
        await whole.bus_server.restart(lose_store=True)
        after = await whole.wanted(lambda it: it.stamp.store > before.stamp.store, within=25)
        assert after.stamp.generation == before.stamp.generation
        assert after.sharing == before.sharing


async def test_a_successor_fills_a_lost_store_with_what_it_took_over(
    tmp_path: pathlib.Path,
) -> None:
    """It has published nothing itself, since nothing has changed; the last good one is not lost."""
    async with parts.running(tmp_path) as whole:
        whole.at.add_node(NODE, {CONFIG_LABEL: "any"})
        await whole.config({"any": text(8)})
        first = whole.start()
        await eventually(lambda: whole.replicas() == 8)
        await whole.config({"any": parts.BAD})
        before = await whole.wanted(lambda it: it.state is ConfigState.REFUSED)
        first.cancel()
        await asyncio.wait([first])
        whole.start()
        await eventually(lambda: whole.at.server.watches == 4)
        await whole.bus_server.restart(lose_store=True)
        after = await whole.wanted(lambda it: it.stamp.store > before.stamp.store, within=25)
        assert whole.replicas() == 8
        assert after.stamp.generation == before.stamp.generation


async def test_with_text_and_store_both_bad_the_node_serves_unshared_and_says_so(
    tmp_path: pathlib.Path,
) -> None:
    """There is no last good text any more: unshared, refused, with an Event."""
    async with parts.running(tmp_path) as whole:
        whole.at.add_node(NODE, {CONFIG_LABEL: "any"})
        await whole.config({"any": parts.BAD})
        whole.start()
        found = await whole.wanted()
        assert found.state is ConfigState.REFUSED
        assert found.sharing.resources == ()
        (event,) = await eventually(lambda: whole.at.events(names.CONFIG_REFUSED, about=NODE))
        assert "no last good text" in event["message"]


async def test_a_failover_goes_on_where_the_leader_stopped(tmp_path: pathlib.Path) -> None:
    """Two stand, one leads; the other takes over, rewrites nothing, and its term is greater."""
    async with parts.running(tmp_path) as whole:
        whole.at.add_node(NODE, {CONFIG_LABEL: "any"})
        await whole.config({"any": text(8)})
        first = whole.start()
        before = await whole.wanted()
        second = whole.start()
        first.cancel()
        await whole.config({"any": text(4)})
        await eventually(lambda: whole.replicas() == 4)
        assert len(whole.intents[NODE]) == 2
        after = whole.newest()
        assert after
        assert after.stamp.generation.term > before.stamp.generation.term
        assert not second.done()


async def test_a_deleted_lease_does_not_take_generations_back(tmp_path: pathlib.Path) -> None:
    """leaseTransitions begins again at 0; the annotations of nodes keep the order."""
    async with parts.running(tmp_path) as whole:
        whole.at.add_node(NODE, {CONFIG_LABEL: "any"})
        await whole.at.patch_node(NODE, annotations={names.GENERATION_ANNOTATION: "41.7"})
        await whole.config({"any": text(8)})
        whole.start()
        found = await whole.wanted()
        assert found.stamp.generation.term == 42


async def test_it_starts_and_waits_with_the_bus_away(tmp_path: pathlib.Path) -> None:
    """No order of starting is needed."""
    async with parts.running(tmp_path) as whole:
        whole.at.add_node(NODE, {CONFIG_LABEL: "any"})
        await whole.config({"any": text(8)})
        await whole.bus_server.stop()
        whole.start()
        await eventually(lambda: whole.at.all(kinds.LEASE))
        await whole.bus_server.start()
        await eventually(lambda: whole.replicas() == 8, within=10)


async def test_300_nodes_are_followed_by_four_watches(tmp_path: pathlib.Path) -> None:
    """One edit reaches all of them; the number of watches does not depend on them."""
    async with parts.running(tmp_path) as whole:
        nodes = [f"gpu-{number}" for number in range(300)]
        for name in nodes:
            whole.at.add_node(name, {"nvidia.com/gpu.present": "true"})
        await whole.config({"default": text(8)})
        whole.start()
        await eventually(lambda: all(whole.replicas(name) == 8 for name in nodes), within=15)
        assert whole.at.server.watches == 4
        await whole.config({"default": text(4)})
        await eventually(lambda: all(whole.replicas(name) == 4 for name in nodes), within=15)
        assert len({str(whole.intents[name][-1].value.stamp.generation) for name in nodes}) == 1
