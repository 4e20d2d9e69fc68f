"""A real nats-server for each test: it starts in 30 ms, and no test sees another's streams."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import AsyncIterator

import pytest

from shared.simulation.broker import Broker, BrokerError
from tests.integration.bus.rig import NODE, OTHER, AdministeredBroker, make_streams


@pytest.fixture
async def broker(tmp_path: pathlib.Path) -> AsyncIterator[Broker]:
    """A running broker with users for two nodes, and no streams."""
    broker = AdministeredBroker(tmp_path, [NODE, OTHER])
    await broker.start()
    yield broker
    with contextlib.suppress(BrokerError):  # a test that failed while it was stopped
        await broker.stop()


@pytest.fixture
async def stocked(broker: Broker) -> Broker:
    """A broker on which the controller has made its streams."""
    await make_streams(broker)
    return broker
