"""Pods that do not run: one watch, one bounded value on the bus, and an Event after a while."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import pathlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from services.reconfigurer.controller import refusals, watching
from shared.bus import connection, logs
from shared.bus import fleet as bus_fleet
from shared.bus.login import Login
from shared.bus.state import Received
from shared.contract import table
from shared.contract.facts import Fact, FactKind
from shared.contract.messages import DeviceCounts, Intent, Ledger, SlotCounts
from shared.contract.table import Role
from shared.contract.waiting import MOST_PODS, Waiting
from shared.runtime import clock
from shared.simulation.kube.apiserver import kinds
from shared.telemetry import catalogue, meters
from tests.integration.controller import whole as wholes
from tests.integration.controller.cluster import Cluster
from tests.integration.controller.whole import NODE, NodeHand, Whole
from tests.support import measured
from tests.support.eventually import eventually
from tests.support.hardware import gpu
from tests.support.running import running

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

    @property
    def free(self) -> list[int | None]:
        """What had been free for those that have failed."""
        return [each.free for each in self.newest.pods if each.failed] if self.newest else []

    @property
    def stale(self) -> dict[str, int]:
        """How many devices kubelets refuse though they are free, by node."""
        return {each.node: each.devices for each in self.newest.stale} if self.newest else {}


@contextlib.asynccontextmanager
async def watched(
    whole: Whole, shown: meters.Meters = meters.NOTHING, **settings: Any
) -> AsyncIterator[Told]:
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
        told.leader = whole.start(shown)
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


REFUSED = (
    "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu."
    " Requested: 1, Available: 0, which is unexpected"
)


async def registered(whole: Whole) -> None:
    """Let the node's allocator say that the kubelet has taken its registration."""
    user, password_file = whole.bus_server.credentials(Role.ALLOCATOR, NODE)
    login, url = Login(user, password_file), whole.bus_server.url
    async with connection.open_bus(url, login, Role.ALLOCATOR, NODE) as bus:
        writer = logs.FactWriter(bus, NODE)
        async with running(writer.run()):
            fact = Fact(
                stamp=bus.stamp(NODE),
                id="again",
                kind=FactKind.REGISTERED,
                at_ns=clock.now_ns(),
                sentence="",
                resource=GPU,
            )
            writer.publish(fact)
            stored = functools.partial(logs.read_facts, whole.bus, kind=FactKind.REGISTERED)
            await eventually(stored, within=10)


def stale(shown: measured.Remembering) -> dict[str, float]:
    """Devices that kubelets hold for nobody, by resource."""
    return {
        each.labels["resource"]: each.value
        for source in shown.sources
        for each in source()
        if each.instrument is catalogue.KUBELET_STALE_DEVICES
    }


async def test_u035_a_kubelet_that_refuses_what_is_free_is_told_of(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the bus for `why` and `status`, by an Event on the pod, by a metric until it registers."""
    monkeypatch.setattr(refusals, "BEFORE_NS", 0)
    monkeypatch.setattr(refusals, "AFTER_NS", 0)
    monkeypatch.setattr(watching, "LOOK_EVERY_S", 0.1)
    shown = measured.Remembering()
    async with (
        wholes.running(tmp_path) as whole,
        watched(whole, shown, waiting_event_seconds=0.1) as told,
    ):
        at = whole.at
        await add_pod(at, "large", {GPU: 3})
        too_large = functools.partial(at.events, "RequestTooLarge", about="large")
        await eventually(too_large, within=10)  # it has the ledger
        await add_pod(at, "refused", {GPU: 1}, nodeName=NODE)
        await eventually(lambda: "ml/refused" in told.pods)
        failed = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": REFUSED}
        await set_status(at, "refused", **failed)
        await eventually(lambda: at.events("KubeletStale", about="refused"), within=10)
        (event,) = at.events("KubeletStale", about="refused")
        assert event["message"].startswith(
            "refused by gpu-a.example, whose kubelet's table is stale: 2 devices held by unknown"
            " pods. restart the kubelet on gpu-a.example; "
        )
        await eventually(lambda: told.free == [2], within=10)
        await eventually(lambda: stale(shown) == {GPU: 2}, within=10)
        await eventually(lambda: told.stale == {NODE: 2}, within=10)
        assert told.leader is not None
        told.leader.cancel()
        await asyncio.wait([told.leader])
        assert stale(shown) == {}
        whole.start(shown)  # the next leader has not seen the refusal, and goes on saying so
        await eventually(lambda: stale(shown) == {GPU: 2}, within=10)
        await registered(whole)
        await eventually(lambda: stale(shown) == {}, within=10)
        await eventually(lambda: told.stale == {}, within=10)
        assert len(at.events("KubeletStale", about="refused")) == 1
