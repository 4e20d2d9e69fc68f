"""What the controller's part of changes leaves to the watch."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from services.reconfigurer.controller import drain, fleet, nodes, notes, texts
from services.reconfigurer.controller.attempt import Policy
from shared.bus.state import Received
from shared.contract import names
from shared.contract.messages import Phase, Progress
from shared.telemetry import spans
from tests.integration.controller import cluster
from tests.support import hardware, logged
from tests.support.changing_node import DCGM
from tests.support.eventually import eventually

NODE = "gpu-a"


def known(metadata: dict[str, Any]) -> fleet.Fleet:
    """A fleet of one node, read completely; its agent rests."""
    wanted = hardware.intent(node=NODE)
    found = fleet.Fleet(
        config_label=names.CONFIG_LABEL,
        intents={NODE: wanted},
        config_map=texts.ConfigMap(name="sharing"),
    )
    found.nodes[NODE] = nodes.node_of({"metadata": metadata})
    progress = Progress(stamp=wanted.stamp, phase=Phase.IDLE, sentence="rests")
    found.progress[NODE] = Received(progress, "", 1)
    for read in (
        found.nodes_listed,
        found.config_listed,
        found.mig_listed,
        found.progress_read,
        found.hardware_read,
    ):
        read.set()
    return found


async def test_the_answer_to_a_patch_does_not_bring_a_deleted_node_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The watch was ahead: the node has gone, and is not followed any more."""
    logged.everything(caplog)
    async with cluster.running() as at, asyncio.TaskGroup() as tasks:
        at.add_node(NODE, {DCGM: names.PAUSED})
        paused = {names.PAUSED_ANNOTATION: notes.written({DCGM: "true"})}
        await at.patch_node(NODE, annotations=paused)
        fleet_ = known(at.node(NODE))
        answered = at.api.call

        async def late(method: str, path: str, **rest: Any) -> dict[str, Any]:
            answer = await answered(method, path, **rest)
            if method == "PATCH":
                fleet_.nodes.pop(NODE, None)  # as the watch says it
            return answer

        monkeypatch.setattr(at.api, "call", late)
        outlets = drain.Outlets(publish=lambda *_: None, say=lambda _: None, told=lambda *_: None)
        telemetry = spans.Telemetry("controller", "")
        work = drain.Drain(at.api, fleet_, Policy(), outlets, telemetry)
        task = tasks.create_task(work.run(), name="drain")
        await eventually(lambda: logged.lines(caplog, f"node {NODE}: "))
        assert fleet_.nodes == {}
        assert at.node(NODE)["labels"] == {DCGM: "true"}
        task.cancel()
