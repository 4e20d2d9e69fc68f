"""Pods that do not run: one watch, one bounded value on the bus, and an Event after a while."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator
from typing import Any

from shared.bus import fleet as bus_fleet
from shared.bus.state import Received
from shared.contract import table
from shared.contract.messages import DeviceCounts, Intent, Ledger, SlotCounts
from shared.contract.waiting import MOST_PODS, Waiting
from shared.simulation.kube.apiserver import kinds
from tests.integration.controller import whole as wholes
from tests.integration.controller.cluster import Cluster
from tests.integration.controller.whole import NODE, NodeHand, Whole
from tests.support.eventually import eventually
from tests.support.hardware import gpu

GPU = "nvidia.com/gpu"
NAMESPACE = "ml"


class Told:
    """What a person's command hears of pods that do not run."""

    def __init__(self) -> None:
        self.newest: Waiting | None = None
        self.times = 0
        self.leader: asyncio.Task[None] | None = None

    def hear(self, node: str, received: Received[Waiting]) -> None:
        """Note it."""
        self.newest = received.value
        self.times += 1

    @property
    def pods(self) -> list[str]:
        """Who waits, in order."""
        return [each.pod for each in self.newest.pods] if self.newest else []


@contextlib.asynccontextmanager
async def watched(whole: Whole, **settings: Any) -> AsyncIterator[Told]:
    """A leader, a node with two GPUs and a sharing text, and somebody who reads."""
    whole.settings = whole.settings.model_copy(update=settings)
    at, told = whole.at, Told()
    at.server.objects.create(kinds.NAMESPACE, "", {"metadata": {"name": NAMESPACE}})
    at.add_node(NODE, {"nvidia.com/gpu.present": "true"})
    await whole.config({"any": wholes.text(1)})
    async with whole.command() as bus, wholes.node_services(whole, NODE, (gpu(0), gpu(1))) as hand:
        reader: bus_fleet.FleetReader[Waiting] = bus_fleet.FleetReader(
            bus, table.bucket("waiting"), told.hear, look_every=0.2
        )
        reading = whole.tasks.create_task(reader.run())
        told.leader = whole.start()
        await whole.wanted()
        serve(hand, whole.intents[NODE][-1], free=2)
        yield told
        reading.cancel()


def serve(hand: NodeHand, wanted: Received[Intent], *, free: int) -> None:
    """Say on the bus that so many slots are free, in answer to an intent."""
    inventory = hand.answer(wanted)
    counts = SlotCounts(free=free)
    ledger = Ledger(
        stamp=inventory.stamp,
        rows=(),
        counts=(DeviceCounts(gpu_uuid="GPU-0", resource=GPU, counts=counts),),
    )
    hand.ledgers.put(ledger)


async def add_pod(at: Cluster, name: str, requests: dict[str, int], **spec: Any) -> dict[str, Any]:
    """A pod that nobody schedules."""
    limits = {resource: str(count) for resource, count in requests.items()}
    container = {"name": "main", "image": "x", "resources": {"limits": limits}}
    body = {"metadata": {"name": name}, "spec": {"containers": [container]} | spec}
    return await at.api.call("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body=body)


async def set_status(at: Cluster, name: str, **status: Any) -> None:
    """Let a kubelet say something of it."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/status"
    await at.api.call(
        "PATCH", path, body={"status": status}, content="application/merge-patch+json"
    )


async def test_pods_are_told_while_they_do_not_run(tmp_path: pathlib.Path) -> None:
    """A pod that runs is told no more; one that has failed still is, with what is said of it."""
    async with wholes.running(tmp_path) as whole, watched(whole) as told:
        at = whole.at
        await add_pod(at, "first", {GPU: 3}, nodeSelector={"zone": "x"})
        await add_pod(at, "second", {GPU: 1})
        await add_pod(at, "plain", {})
        await eventually(lambda: told.pods == ["ml/first", "ml/second", "ml/plain"])
        await set_status(at, "second", phase="Running")
        await set_status(at, "first", phase="Failed", reason="UnexpectedAdmissionError")
        await eventually(lambda: told.pods == ["ml/first", "ml/plain"])
        await eventually(lambda: bool(told.newest and told.newest.pods[0].failed_ns))
        assert told.newest is not None
        waits = told.newest.pods[0]
        assert (waits.phase, waits.reason) == ("Failed", "UnexpectedAdmissionError")
        assert [(each.resource, each.count) for each in waits.requests] == [(GPU, 3)]
        assert told.newest.places[waits.place] == ()
        assert at.server.watches == 4


async def test_what_does_not_change_is_not_written_again(tmp_path: pathlib.Path) -> None:
    """Heartbeats of pods, and a verdict that stays, cost the bus nothing."""
    async with wholes.running(tmp_path) as whole, watched(whole) as told:
        await add_pod(whole.at, "waits", {GPU: 3})
        await eventually(lambda: told.pods == ["ml/waits"])
        times = told.times
        for number in range(5):
            await set_status(whole.at, "waits", qosClass=f"Q{number}")
        await add_pod(whole.at, "last", {GPU: 3})
        await eventually(lambda: len(told.pods) == 2)
        assert told.times == times + 1


async def test_a_storm_of_pods_is_bounded(tmp_path: pathlib.Path) -> None:
    """The oldest are told, and how many there are besides."""
    async with wholes.running(tmp_path) as whole, watched(whole) as told:
        for number in range(MOST_PODS + 20):
            whole.at.server.objects.create(kinds.POD, NAMESPACE, manifest(f"p{number:03}"))
        await eventually(lambda: told.newest is not None and told.newest.more == 20, within=20)
        assert len(told.pods) == MOST_PODS


def manifest(name: str) -> dict[str, Any]:
    """A pod that asks for more than there is."""
    container = {"name": "main", "image": "x", "resources": {"limits": {GPU: "3"}}}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"containers": [container]},
    }


async def test_a_pod_that_waits_is_told_why_once(tmp_path: pathlib.Path) -> None:
    """By an Event with the reason of the list; another leader does not say it again."""
    async with (
        wholes.running(tmp_path, lease_s=1.0) as whole,
        watched(whole, waiting_event_seconds=0.1) as told,
    ):
        pod = await add_pod(whole.at, "waits", {GPU: 3})
        await add_pod(whole.at, "plain", {})

        def events() -> list[dict[str, Any]]:
            return whole.at.events("RequestTooLarge", about="waits")

        await eventually(events)
        (event,) = events()
        assert event["involvedObject"]["uid"] == pod["metadata"]["uid"]
        assert event["type"] == "Warning"
        assert event["message"] == (
            "3 nvidia.com/gpu in one pod is more than any node has. ask for 2 or less: that is all"
            " of the largest node"
        )
        before = event["metadata"]["resourceVersion"]
        assert told.leader is not None
        told.leader.cancel()
        await add_pod(whole.at, "zlast", {GPU: 3})  # told after the others
        whole.start()
        await eventually(lambda: whole.at.events("RequestTooLarge", about="zlast"))
        assert [each["metadata"]["resourceVersion"] for each in events()] == [before]
        assert whole.at.events(about="plain") == []
