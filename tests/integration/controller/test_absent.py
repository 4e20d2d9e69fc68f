"""A node that an autoscaler has taken away: forgotten by all, served anew if it returns."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import AsyncIterator

import pytest

from services.reconfigurer.controller import absent
from services.views import book, fleet
from shared.contract import table
from shared.simulation.kube.apiserver import kinds
from tests.integration.controller import whole as parts
from tests.integration.controller.whole import CONFIG_LABEL, NODE, Whole, text
from tests.support import hardware
from tests.support.eventually import eventually
from tests.support.running import running

GPUS = (hardware.gpu(0),)


@pytest.fixture(autouse=True)
def _hours_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour is half a second here."""
    monkeypatch.setattr(table, "ABSENT_S", 0.5)
    monkeypatch.setattr(absent, "LOOK_EVERY_S", 0.1)


@contextlib.asynccontextmanager
async def told(whole: Whole) -> AsyncIterator[book.Book]:
    """What `status` reads, kept up to date."""
    async with whole.command() as bus:
        found = book.Book(bus)
        async with running(found.run()):
            await found.read()
            yield found


async def test_a_node_that_has_gone_is_forgotten_and_returns_as_a_new_one(
    tmp_path: pathlib.Path,
) -> None:
    """Finding: its slots stood in every total for ever, its services among the silent ones."""
    async with parts.running(tmp_path) as whole:
        whole.at.add_node(NODE, {CONFIG_LABEL: "any"})
        await whole.config({"any": text(4)})
        whole.start()
        await whole.wanted()
        async with told(whole) as found:
            async with parts.node_services(whole, NODE, GPUS) as node:
                node.answer()
                await eventually(lambda: found.nodes == (NODE,) and found.inventories)
            whole.at.server.objects.delete(kinds.NODE, "", NODE)
            await eventually(lambda: not found.nodes, within=15)
            assert fleet.form(found.states())["nodes"] == []
            whole.intents.clear()
            whole.at.add_node(NODE, {CONFIG_LABEL: "any"})
            await whole.wanted()
            assert whole.replicas() == 4
            await eventually(lambda: found.nodes == (NODE,))


async def test_a_node_that_stays_is_not_forgotten(tmp_path: pathlib.Path) -> None:
    """However long its services are silent: it may be off for the night."""
    other = "gpu-b.example"
    async with parts.running(tmp_path) as whole:
        whole.at.add_node(NODE, {CONFIG_LABEL: "any"})
        whole.at.add_node(other, {CONFIG_LABEL: "any"})
        await whole.config({"any": text(4)})
        whole.start()
        async with told(whole) as found:
            await eventually(lambda: set(found.nodes) == {NODE, other})
            whole.at.server.objects.delete(kinds.NODE, "", other)
            await eventually(lambda: found.nodes == (NODE,), within=15)
            assert set(whole.intents) == {NODE, other}
