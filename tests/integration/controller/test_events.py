"""Events as the API server keeps them: counted, said once, never in the way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from services.reconfigurer.controller import events, saying
from shared.simulation.kube.apiserver import faults
from tests.integration.controller import cluster
from tests.support.eventually import eventually

NODE = saying.About(kind="Node", name="gpu-a.example", uid="u1")
SAY = saying.Say(
    about=NODE, reason="ConfigRefused", message="line 3: a number is due", warning=True
)
LAST = saying.Say(about=NODE, reason="Last", message="comes after all others")


@contextlib.asynccontextmanager
async def posting(at: cluster.Cluster) -> AsyncIterator[events.Events]:
    """A running queue of Events."""
    queue = events.Events(at.api, "controller-1")
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(queue.run())
        yield queue
        task.cancel()


async def test_what_is_said_again_is_counted() -> None:
    """One object, with the time of the last."""
    async with cluster.running() as at, posting(at) as queue:
        for _ in range(3):
            queue.say(SAY)
        await eventually(lambda: [it["count"] for it in at.events(SAY.reason)] == [3])
        (event,) = at.events(SAY.reason)
        assert event["type"] == "Warning"
        assert event["involvedObject"] == {
            "apiVersion": "v1",
            "kind": "Node",
            "name": NODE.name,
            "uid": "u1",
            "namespace": "",
        }


async def test_an_occurrence_with_a_topic_is_said_once() -> None:
    """Whoever says it a second time, and in whatever words."""
    first = saying.Say(about=NODE, reason="GpuUnhealthy", message="sick", topic="GPU-1 sick 5")
    again = saying.Say(about=NODE, reason="GpuUnhealthy", message="ill", topic="GPU-1 sick 5")
    async with cluster.running() as at, posting(at) as queue:
        for say in (first, again, LAST):
            queue.say(say)
        await eventually(lambda: at.events(LAST.reason))
        assert [(it["message"], it["count"]) for it in at.events(first.reason)] == [("sick", 1)]


async def test_an_event_that_cannot_be_posted_holds_nobody_up() -> None:
    """A refusal and a pod that is gone are logged; what comes after is posted."""

    refusals = [faults.Refuse(500)]

    async def fault(call: faults.Call) -> faults.Fault | None:
        return refusals.pop() if call.method == "POST" and refusals else None

    gone = saying.Say(
        about=saying.About(kind="Pod", name="gone", namespace="default"), reason="r", message="m"
    )
    async with cluster.running(fault=fault) as at, posting(at) as queue:
        for say in (SAY, gone, LAST):
            queue.say(say)
        await eventually(lambda: at.events(LAST.reason))
        assert [it["reason"] for it in at.events()] == [LAST.reason]
