"""Events as the API server keeps them: counted, said once, never in the way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from services.reconfigurer.controller import events, saying
from shared.simulation.kube.apiserver import faults
from tests.integration.controller import cluster
from tests.support import logged
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


async def test_u051_what_the_api_server_cannot_take_now_is_posted_later() -> None:
    """Away, in trouble or busy: nothing is lost, and what comes after is not held up by it."""
    refusals = [faults.Refuse(503), faults.Refuse(429, retry_after=1), faults.Refuse(500)]

    async def fault(call: faults.Call) -> faults.Fault | None:
        return refusals.pop() if call.method == "POST" and refusals else None

    async with cluster.running(fault=fault) as at, posting(at) as queue:
        await at.server.stop()
        for say in (SAY, LAST):
            queue.say(say)
        await at.server.start()
        await eventually(lambda: len(at.events()) == 2)
        assert not refusals
        assert {it["reason"]: it["count"] for it in at.events()} == {SAY.reason: 1, LAST.reason: 1}


async def test_an_event_whose_answer_was_lost_is_not_counted_twice() -> None:
    """It was posted; the second try finds it and leaves it as it is."""
    drops = [faults.DropAnswer()]
    posts: list[str] = []

    async def fault(call: faults.Call) -> faults.Fault | None:
        if call.method != "POST":
            return None
        posts.append(call.path)
        return drops.pop() if drops else None

    async with cluster.running(fault=fault) as at, posting(at) as queue:
        queue.say(SAY)
        await eventually(lambda: len(posts) == 2)
        queue.say(LAST)
        await eventually(lambda: at.events(LAST.reason))
        assert [it["count"] for it in at.events(SAY.reason)] == [1]


async def test_an_event_that_can_never_be_posted_is_given_up() -> None:
    """A refusal for good and a pod that is gone are logged; what comes after is posted."""
    posts: list[str] = []

    async def fault(call: faults.Call) -> faults.Fault | None:
        if call.method != "POST":
            return None
        posts.append(call.path)
        return faults.Refuse(403) if len(posts) == 1 else None

    gone = saying.Say(
        about=saying.About(kind="Pod", name="gone", namespace="default"), reason="r", message="m"
    )
    async with cluster.running(fault=fault) as at, posting(at) as queue:
        for say in (SAY, gone, LAST):
            queue.say(say)
        await eventually(lambda: at.events(LAST.reason))
        assert [it["reason"] for it in at.events()] == [LAST.reason]
        assert len(posts) == 2


async def test_an_event_is_not_tried_for_ever(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One that the server cannot take for too long is given up, with its reason in the log."""
    monkeypatch.setattr(events, "GIVE_UP_S", 0.3)

    async def fault(call: faults.Call) -> faults.Fault | None:
        return faults.Refuse(500) if call.method == "POST" else None

    async with cluster.running(fault=fault) as at, posting(at) as queue:
        queue.say(SAY)
        await eventually(lambda: logged.lines(caplog, "not posted: "))
        (waits,) = logged.lines(caplog, "not posted yet")
        assert waits.level == "warning", "once, however often it is tried"
        at.server.fault = None
        queue.say(LAST)
        await eventually(lambda: at.events(LAST.reason))
        assert [it["reason"] for it in at.events()] == [LAST.reason]
