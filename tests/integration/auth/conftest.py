"""A gated NATS and an API server for each test."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from shared.simulation.broker import BrokerError
from shared.simulation.kube import apiserver
from tests.integration.auth import rig as rigs


@pytest.fixture
async def rig(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[rigs.Rig]:
    """Both running; nobody answers the server's questions yet."""
    for name, public in rigs.write_keys(tmp_path / "keys").items():
        monkeypatch.setenv(name, public)
    broker = rigs.GatedBroker(tmp_path / "nats")
    await broker.start()
    tokens: dict[str, dict[str, Any]] = {}
    server = apiserver.ApiServer(tokens=tokens)
    url = await server.start()
    yield rigs.Rig(broker, server, url, tmp_path, tokens)
    await server.stop()
    with contextlib.suppress(BrokerError):
        await broker.stop()
