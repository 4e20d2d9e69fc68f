"""The whole allocator against a kubelet that is as late and as wrong as the real one."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import pathlib
from collections.abc import AsyncIterator

import pytest

from services.allocator import app
from shared.contract.messages import Inventory
from shared.domain.sharing import UNSHARED
from shared.runtime import clock, locks
from shared.simulation.kube.kubelet import endpoint, registration
from shared.simulation.kube.kubelet.device_manager import Device
from tests.integration.allocator.rig import Rig, rig
from tests.support import logged, plugin, slots
from tests.support.eventually import eventually, steadily
from tests.support.one_node import GPU, QUICK, pod_object

A, B = slots.named(0, "a"), slots.named(1, "b")
X4 = slots.inventory(slots.time_sliced(4), A, B)
X2 = slots.inventory(slots.time_sliced(2), A, B)
SHARED_NAME = f"{GPU}.shared"


async def test_u027_it_registers_at_once_with_an_empty_list(short: pathlib.Path) -> None:
    """U027: within 2 s, whatever is known; devices come into the standing registration."""
    async with rig(short) as here, here.serving():
        await eventually(lambda: here.node.kubelet.record.registrations[GPU] == 1, within=2)
        await here.advertise(X4)
        await eventually(lambda: _counts(here, (8, 8)))
        assert here.node.kubelet.record.registrations == {GPU: 1}


async def test_pods_get_their_gpus_and_are_in_the_ledger(short: pathlib.Path) -> None:
    """U021: distributed over both GPUs, with environment and nodes, and named after List."""
    async with rig(short) as here:
        await here.advertise(X4)
        async with here.serving():
            await eventually(lambda: _counts(here, (8, 8)))
            for number in range(3):
                await here.node.create(pod_object(f"p{number}", {GPU: 1}))
                await eventually(functools.partial(_running, here, f"p{number}"))
            pods = [here.node.kubelet.pod(f"default/p{number}") for number in range(3)]
            made = [pod.containers["c0"] for pod in pods if pod]
            uuids = [container.env["NVIDIA_VISIBLE_DEVICES"] for container in made]
            assert uuids == ["GPU-a", "GPU-b", "GPU-a"]
            assert [node.host_path for node in made[1].devices] == [
                "/dev/nvidia1",
                "/dev/nvidiactl",
                "/dev/nvidia-uvm",
                "/dev/nvidia-uvm-tools",
            ]
            expected = {"GPU-a::0": "p0", "GPU-b::0": "p1", "GPU-a::1": "p2"}
            await eventually(lambda: _holders(here, expected))


async def test_a_shrink_is_one_list_and_no_registration(short: pathlib.Path) -> None:
    """U011: x4 to x2: holders keep their slots, nobody is put out."""
    async with rig(short) as here:
        await here.advertise(X4)
        async with here.serving():
            await eventually(lambda: _counts(here, (8, 8)))
            await here.node.create(pod_object("both", {GPU: 1}, {GPU: 1}))
            await eventually(lambda: _holders(here, {"GPU-a::0": "both", "GPU-b::0": "both"}))
            before = len(here.node.kubelet.record.lists)
            await here.advertise(X2)
            await eventually(lambda: _counts(here, (4, 4)))
            await clock.sleep(1)
            (listed,) = here.node.kubelet.record.lists[before:]
            assert listed.healthy == ("GPU-a::0", "GPU-a::1", "GPU-b::0", "GPU-b::1")
            assert here.node.kubelet.record.registrations == {GPU: 1}
            assert await here.holders() == {"GPU-a::0": "both", "GPU-b::0": "both"}
            assert await here.phases("both") == ["Running"]


async def test_u041_killed_and_started_again_it_knows_who_holds_what(
    short: pathlib.Path,
) -> None:
    """U041: kill -9 loses nothing: same slots, same holders, same since-times, same traces."""
    async with rig(short) as here:
        await here.advertise(X4)
        killed = await here.process()
        await eventually(lambda: _counts(here, (8, 8)), within=10)
        for name in ("p0", "p1"):
            await here.node.create(pod_object(name, {GPU: 1}))
        await eventually(lambda: _holders(here, {"GPU-a::0", "GPU-b::0"}))
        before = await here.memory()
        killed.kill()
        await killed.wait()
        await eventually(lambda: _counts(here, (8, 0)))
        await here.node.delete("p1")  # while nobody looks
        async with here.serving():
            await eventually(lambda: _counts(here, (8, 8)))
            await eventually(lambda: _one_holder(here, "p0"))
            after = await here.memory()
            assert before is not None
            assert after is not None
            assert after.grants[0] in before.grants
            await here.node.create(pod_object("p2", {GPU: 1}))
            await eventually(lambda: _running(here, "p2"))
            assert len({pod.key for pod in here.node.kubelet.running()}) == 2


async def test_it_registers_again_with_every_new_kubelet(short: pathlib.Path) -> None:
    """A restarted kubelet has removed our socket: it is made anew, pods and slots stay."""
    async with rig(short) as here:
        await here.advertise(X4)
        async with here.serving():
            await eventually(lambda: _counts(here, (8, 8)))
            await here.node.create(pod_object("p", {GPU: 2}))
            await eventually(lambda: _running(here, "p"))
            await here.node.kubelet.restart()
            await eventually(lambda: _counts(here, (8, 8)))
            await eventually(lambda: _holders(here, {"GPU-a::0": "p", "GPU-b::0": "p"}))


async def test_u029_no_kubelet_at_first_then_two_of_them(short: pathlib.Path) -> None:
    """U029: it waits, registers, and ends with one live registration after a quick change."""
    async with rig(short) as here:
        await here.advertise(X4)
        await here.node.kubelet.stop()
        async with here.serving():
            await clock.sleep(1)
            await here.node.kubelet.start()
            await here.node.kubelet.restart()
            await eventually(lambda: _counts(here, (8, 8)))
            await here.node.create(pod_object("p", {GPU: 1}))
            await eventually(lambda: _running(here, "p"))


async def test_a_kubelet_that_refuses_a_registration_is_quoted_and_asked_again(
    short: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """People read its own sentence, and it may take a plugin later."""
    monkeypatch.setattr(registration, "VERSION", "v1")
    async with rig(short) as here:
        await here.advertise(X4)
        async with here.serving():
            refused = await eventually(lambda: logged.lines(caplog, "is not registered"))
            assert refused[0].message.startswith(f"{GPU} is not registered: requested API version")
            monkeypatch.undo()
            await eventually(lambda: _counts(here, (8, 8)))


async def test_a_kubelet_that_was_killed_is_waited_for(short: pathlib.Path) -> None:
    """Its socket file stays with nobody behind it; the next kubelet gets its registration."""
    async with rig(short) as here:
        await here.advertise(X4)
        async with here.serving():
            await eventually(lambda: _counts(here, (8, 8)))
            await here.node.kubelet.kill()
            await clock.sleep(0.5)
            await here.node.kubelet.start()
            await eventually(lambda: _counts(here, (8, 8)), within=30)


@pytest.mark.parametrize("old", [True, False], ids=["before 1.35", "from 1.35 on"])
async def test_u031_another_plugin_takes_the_resource_and_gives_it_back(
    short: pathlib.Path, old: bool
) -> None:
    """U031: told once with the other's socket, no fight, and capacity comes back by itself."""
    switches = dataclasses.replace(QUICK, old_endpoint_drops_new=old)
    async with rig(short, switches) as here:
        await here.advertise(X4)
        async with here.serving():
            await eventually(lambda: _counts(here, (8, 8)))
            async with plugin.Plugin(here.node.plugins, {"theirs": True}, endpoint="other.sock"):
                await eventually(lambda: _counts(here, (1, 1)))
                await clock.sleep(7)  # longer than the time between two checks
                assert await here.node.counts() == (1, 1)
                assert here.node.kubelet.record.registrations == {GPU: 2}
            await eventually(lambda: _counts(here, (8, 8)), within=30)
        # an old kubelet hangs up on us as well; a newer one only wants our list again
        assert here.node.kubelet.record.registrations == {GPU: 3 if old else 2}


async def test_a_resource_whose_ids_only_look_like_ours_stays_its_plugins(
    short: pathlib.Path,
) -> None:
    """Other plugins make ids of UUIDs too: what their pods hold is no reason to serve it."""
    other = "v.io/gpu"
    theirs = plugin.Plugin(short / "device-plugins", {"GPU-a-0": True}, resource=other)
    async with rig(short) as here, theirs:
        await eventually(lambda: _counts(here, (1, 1), other))
        await here.node.create(pod_object("p", {other: 1}))
        await eventually(lambda: _running(here, "p"))
        await here.advertise(X4)
        async with here.serving():
            await eventually(lambda: _counts(here, (8, 8)))
            await here.node.create(pod_object("q", {GPU: 1}))
            await eventually(lambda: _holders(here, {"GPU-a-0", "GPU-a::0"}))
            assert await here.node.counts(other) == (1, 1)
            assert here.node.kubelet.record.registrations == {GPU: 1, other: 1}


async def test_u033_a_successor_takes_over_and_capacity_never_falls(
    short: pathlib.Path,
) -> None:
    """U033: the one that stops answers until the other is registered, whose lists then count."""
    async with rig(short) as here:
        await here.advertise(X4)
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(app.serve(here.settings))
            await eventually(lambda: _counts(here, (8, 8)))
            async with here.serving():
                seen = len(here.node.kubelet.record.statuses)
                await eventually(_lock(here).is_awaited)
                first.cancel()
                await asyncio.wait([first])
                await here.node.create(pod_object("p", {GPU: 1}))
                await eventually(lambda: _running(here, "p"))
                later = here.node.kubelet.record.statuses[seen:]
                assert not later, "the node's status was written anew: capacity fell"
                assert here.node.kubelet.record.registrations == {GPU: 2}
                await here.advertise(slots.inventory(slots.time_sliced(6), A, B))
                await eventually(lambda: _counts(here, (12, 12)))
                assert len(_sockets(here)) == 1


async def test_u111_pods_run_on_and_one_comes_in_the_middle_of_an_upgrade(
    short: pathlib.Path,
) -> None:
    """U111: three hold their slots, the fourth gets one of those left, none is refused."""
    async with rig(short) as here:
        await here.advertise(X4)
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(app.serve(here.settings))
            await eventually(lambda: _counts(here, (8, 8)))
            for name in ("p0", "p1", "p2"):
                await here.node.create(pod_object(name, {GPU: 1}))
                await eventually(functools.partial(_running, here, name))
            await eventually(lambda: _all_are_named(here, 3))
            before = await here.holders()
            async with here.serving():
                await eventually(_lock(here).is_awaited)
                first.cancel()
                await here.node.create(pod_object("arriving", {GPU: 1}))
                await eventually(lambda: _running(here, "arriving"))
                await asyncio.wait([first])
                await eventually(lambda: _all_are_named(here, 4))
                held = await here.holders()
                assert before.items() <= held.items()
                assert here.node.kubelet.record.rejections == []


async def test_a_kubelet_that_drops_the_successor_hears_of_it_again(
    short: pathlib.Path,
) -> None:
    """A replaced plugin's end cuts off its successor (before 1.35): it registers once more."""
    async with rig(short, dataclasses.replace(QUICK, old_endpoint_drops_new=True)) as here:
        await here.advertise(X4)
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(app.serve(here.settings))
            await eventually(lambda: _counts(here, (8, 8)))
            async with here.serving():
                await eventually(_lock(here).is_awaited)
                first.cancel()
                await asyncio.wait([first])
                await eventually(lambda: here.node.kubelet.record.registrations[GPU] == 3)
                await eventually(lambda: _counts(here, (8, 8)))


async def test_u053_a_sick_gpu_is_one_list(short: pathlib.Path) -> None:
    """U053: all its slots and no other, with the bus away; holders stay; back when it heals."""
    async with rig(short) as here:
        await here.advertise(X4)
        async with here.serving():
            await eventually(lambda: _counts(here, (8, 8)))
            await here.node.create(pod_object("p", {GPU: 1}))
            await eventually(lambda: _holders(here, {"GPU-a::0": "p"}))
            before = len(here.node.kubelet.record.lists)
            await here.advertise(slots.inventory(slots.time_sliced(4), slots.sick(A), B))
            await eventually(lambda: _counts(here, (8, 4)), within=2)
            (listed,) = here.node.kubelet.record.lists[before:]
            assert all(slot.startswith("GPU-b") for slot in listed.healthy)
            assert await here.holders() == {"GPU-a::0": "p"}
            await here.advertise(X4)
            await eventually(lambda: _counts(here, (8, 8)), within=2)


@pytest.mark.parametrize("sick_first", [True, False], ids=["it counts nothing", "it counts others"])
async def test_a_long_list_that_is_still_being_taken_tells_of_no_other_plugin(
    short: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    sick_first: bool,
) -> None:
    """Until a kubelet has all of a list it counts by the one before: our socket and word stay."""
    reading, lists = asyncio.Event(), endpoint.Endpoint.lists

    async def held_up(self: endpoint.Endpoint) -> AsyncIterator[tuple[Device, ...]]:
        async for devices in lists(self):
            yield devices
            await reading.wait()

    monkeypatch.setattr(endpoint.Endpoint, "lists", held_up)
    config = slots.time_sliced(4000)
    before, after = (
        slots.inventory(config, slots.sick(A) if sick else A)
        for sick in (sick_first, not sick_first)
    )
    async with rig(short) as here:
        await here.advertise(before)
        async with here.serving():
            await eventually(lambda: _counts(here, (4000, 0 if sick_first else 4000)))
            await here.advertise(after)
            await eventually(functools.partial(_remembers, here, after))
            (here.node.plugins / "look.sock").touch()  # it looks again whenever one comes
            await steadily(lambda: here.node.kubelet.record.registrations[GPU] == 1, for_=1.5)
            reading.set()
            await eventually(lambda: _counts(here, (4000, 4000 if sick_first else 0)))
            assert not logged.lines(caplog, "another plugin")
            assert here.node.kubelet.record.registrations == {GPU: 1}


async def test_a_renamed_resource(
    short: pathlib.Path,
) -> None:
    """The old endpoint ends with its last holder; no GPU is offered twice in between."""
    async with rig(short) as here:
        await here.advertise(X4)
        async with here.serving():
            await eventually(lambda: _counts(here, (8, 8)))
            await here.node.create(pod_object("p", {GPU: 1}))
            await eventually(lambda: _holders(here, {"GPU-a::0": "p"}))
            before = len(here.node.kubelet.record.lists)
            renamed = slots.time_sliced(4, rename=SHARED_NAME)
            await here.advertise(slots.inventory(renamed, A, B))
            await eventually(lambda: _counts(here, (7, 7), SHARED_NAME))
            first, second = here.node.kubelet.record.lists[before:]
            assert (first.resource, first.devices) == (GPU, ())
            assert second.resource == SHARED_NAME
            assert _sockets(here)
            await here.node.delete("p")
            await eventually(lambda: _counts(here, (8, 8), SHARED_NAME), within=30)
            await eventually(lambda: not _sockets(here))


async def test_more_than_one_slot_fails_with_our_sentence(short: pathlib.Path) -> None:
    """The pod ends in UnexpectedAdmissionError and says resource, number, limit and field."""
    async with rig(short) as here:
        await here.advertise(slots.inventory(slots.time_sliced(4, one_only=True), A, B))
        async with here.serving():
            await eventually(lambda: _counts(here, (8, 8)))
            await here.node.create(pod_object("greedy", {GPU: 2}))
            await eventually(lambda: here.node.kubelet.record.rejections)
            (rejection,) = here.node.kubelet.record.rejections
            assert rejection.reason == "UnexpectedAdmissionError"
            assert "nvidia.com/gpu: 2 slots requested, the limit is 1" in rejection.message
            assert "sharing.timeSlicing.failRequestsGreaterThanOne" in rejection.message
            assert not await here.holders()


async def test_whole_gpus_and_init_containers(short: pathlib.Path) -> None:
    """An init container's GPU goes to the app container; the ledger names the latter."""
    async with rig(short) as here:
        await here.advertise(slots.inventory(UNSHARED, A, B))
        async with here.serving():
            await eventually(lambda: _counts(here, (2, 2)))
            await here.node.create(pod_object("p", {GPU: 1}, init=({GPU: 1},)))
            await eventually(lambda: _running(here, "p"))
            await eventually(lambda: _holders(here, {"GPU-a": "p"}))


async def _remembers(here: Rig, inventory: Inventory) -> bool:
    memory = await here.memory()
    return memory is not None and memory.inventory == inventory


async def _counts(here: Rig, wanted: tuple[int, int], resource: str = GPU) -> bool:
    return await here.node.counts(resource) == wanted


async def _running(here: Rig, name: str) -> bool:
    return await here.node.phase(name) == "Running"


async def _one_holder(here: Rig, pod: str) -> bool:
    return list((await here.holders()).values()) == [pod]


async def _all_are_named(here: Rig, count: int) -> bool:
    held = await here.holders()
    return len(held) == count and None not in held.values()


async def _holders(here: Rig, wanted: object) -> bool:
    held = await here.holders()
    if isinstance(wanted, set):
        return set(held) == wanted and None not in held.values()
    return held == wanted


def _lock(here: Rig) -> locks.ServingLock:
    return locks.ServingLock(here.settings.run_dir / "allocator.lock")


def _sockets(here: Rig) -> list[str]:
    return [path.name for path in here.node.plugins.glob("slicewire-gpu.??.sock")]
