"""A NATS that asks who may enter, an API server that knows tokens, and controllers that answer."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import pathlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nats.aio.client import Client
from nats.errors import Error

from services.reconfigurer.controller import kube
from services.reconfigurer.controller.auth import app
from services.reconfigurer.controller.settings import ControllerSettings
from shared.bus import connection
from shared.bus.auth import installation
from shared.bus.login import Login
from shared.contract import names, permissions, server_conf
from shared.contract.keys import Key
from shared.contract.table import NODE_ROLES, Role
from shared.runtime import clock
from shared.simulation.broker import Broker
from shared.simulation.kube import apiserver
from tests.integration.bus.rig import Plain
from tests.support.eventually import eventually

NODE, OTHER = "gpu-a.example", "gpu-b"
ACCOUNTS = {f"slicewire:{role}": role for role in NODE_ROLES}
HOUR_S = 3600


class GatedBroker(Broker):
    """A broker with the chart's configuration; only its place is the test's."""

    def configuration(self) -> str:
        """What the server is told."""
        static = json.loads(super().configuration())
        return server_conf.callout_configuration(
            host=static["host"], port=static["port"], store_dir=static["jetstream"]["store_dir"]
        )


@dataclass
class Rig:
    """What a test acts on."""

    broker: Broker
    server: apiserver.ApiServer
    api_url: str
    folder: pathlib.Path
    tokens: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def keys(self) -> pathlib.Path:
        """The Secret, as it is mounted."""
        return self.folder / "keys"

    def token(
        self,
        role: str,
        node: str = NODE,
        *,
        audience: str = names.BUS_AUDIENCE,
        lasts_s: float = HOUR_S,
        without: str = "",
        account: str = "",
    ) -> str:
        """A token that the API server knows, as the kubelet gets it for a pod."""
        ends = clock.now_ns() // 10**9 + int(lasts_s)
        body = {"exp": ends, "sub": role, "node": node, "number": len(self.tokens)}
        token = f"head.{base64.urlsafe_b64encode(json.dumps(body).encode()).decode()}.signature"
        bound = {"node-name": node, "node-uid": "n", "pod-name": f"{role}-x", "pod-uid": "p"}
        extra = {f"authentication.kubernetes.io/{k}": [v] for k, v in bound.items() if k != without}
        name = f"system:serviceaccount:{account or f'slicewire:{role}'}"
        self.tokens[token] = {"user": {"username": name, "extra": extra}, "audiences": [audience]}
        return token

    def token_file(self, role: str, node: str = NODE) -> pathlib.Path:
        """The file in which a pod has its token."""
        file = self.folder / f"{role}.{node}.token"
        file.write_text(self.token(role, node))
        return file

    def settings(self) -> ControllerSettings:
        """A controller's settings, as far as the gate reads them."""
        return ControllerSettings(
            bus_url=self.broker.url, bus_keys_dir=self.keys, bus_accounts=ACCOUNTS
        )

    @contextlib.asynccontextmanager
    async def gate(self) -> AsyncIterator[None]:
        """One controller that answers while the block runs; it begins when one does."""
        async with kube.connect(self.api_url, "") as api, asyncio.TaskGroup() as tasks:
            work = app.serve(self.settings(), self.keys, api)
            gate = tasks.create_task(work, name="gate")
            await eventually(lambda: self.let_in(self.token("agent")), within=20)
            try:
                yield
            finally:
                gate.cancel()

    def opened(
        self, role: Role, node: str = NODE
    ) -> contextlib.AbstractAsyncContextManager[connection.Bus]:
        """A place on the bus, as a node service has it."""
        login = Login(token_file=self.token_file(role, node))
        return connection.open_bus(self.broker.url, login, role, node)

    def controller(self) -> contextlib.AbstractAsyncContextManager[connection.Bus]:
        """The controller's own place."""
        login = Login(seed_file=self.keys / Key.CONTROLLER.seed_file)
        return connection.open_bus(self.broker.url, login, Role.CONTROLLER)

    async def let_in(self, token: str) -> bool:
        """Whether the server lets a client in with this token."""
        with contextlib.suppress(Error):
            async with self.plain(token, Role.AGENT) as user:
                return user.client.is_connected
        return False

    @contextlib.asynccontextmanager
    async def plain(self, token: str, role: Role, node: str = NODE) -> AsyncIterator[Plain]:
        """A client as an attacker would write it; nats-py's own error where it is refused."""

        refusals: list[str] = []

        async def on_error(error: Exception) -> None:
            refusals.append(str(error))

        client = Client()
        try:
            await client.connect(
                self.broker.url,
                token=token,
                inbox_prefix=permissions.inbox_prefix(role, node),
                error_cb=on_error,
                allow_reconnect=False,
                connect_timeout=15,
            )
            yield Plain(client, refusals)
        finally:
            await client.close()


def write_keys(folder: pathlib.Path) -> Mapping[str, str]:
    """Write an installation's keys as the Secret is mounted; return the server's variables."""
    files = installation.make()
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return {key.variable: files[key.public_file] for key in Key}
