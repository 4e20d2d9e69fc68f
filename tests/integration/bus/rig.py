"""Parts for tests on a real nats-server: an administered broker, plain clients, messages."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from shared.bus import connection, ensure
from shared.bus.login import Login
from shared.contract import permissions
from shared.contract.messages import ConfigState, Hold, Intent, Source, Stamp
from shared.contract.permissions import Account
from shared.contract.table import Role
from shared.domain.sharing import UNSHARED, SourceKind
from shared.simulation.broker import Broker

NODE = "gpu-a.example"  # with a dot: subjects hold it as gpu-a_example
OTHER = "gpu-b"
ADMIN = "admin"


class AdministeredBroker(Broker):
    """A broker with one user more, who may do everything with the streams."""

    def configuration(self) -> str:
        """The product's configuration, and the administrator."""
        text = json.loads(super().configuration())
        text["accounts"][Account.STREAMS]["users"].append({"user": ADMIN, "password": ADMIN})
        return json.dumps(text)


class Plain:
    """A user's own nats-py client, as an attacker would write it; keeps what the server says."""

    def __init__(self, client: Client, refusals: list[str]) -> None:
        self.client = client
        self._refusals = refusals

    async def refusals(self) -> list[str]:
        """What the server has refused since the last call; a round trip brings them all in."""
        await self.settle()
        said, self._refusals[:] = list(self._refusals), []
        return said

    async def settle(self) -> None:
        """Wait until the server has taken all we sent; a first PING overtakes what waits."""
        await self.client.flush()
        await self.client.flush()

    async def heard(self, *subjects: str) -> list[Msg]:
        """A list that fills with what is heard on the subjects."""
        messages: list[Msg] = []

        async def hear(message: Msg) -> None:
            messages.append(message)

        for subject in subjects:
            await self.client.subscribe(subject, cb=hear)
        await self.settle()
        return messages

    async def ask(self, subject: str, data: bytes = b"", **headers: str) -> Msg:
        """A request and its answer; `_` in a header's name is written `-`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.request(subject, data, timeout=5, headers=named or None)

    async def ask_json(self, subject: str, data: bytes = b"") -> dict[str, object]:
        """A request to the stream API."""
        body: dict[str, object] = json.loads((await self.ask(subject, data)).data)
        return body


@contextlib.asynccontextmanager
async def plain(broker: Broker, role: Role, node: str = "") -> AsyncIterator[Plain]:
    """A plain client with the credential of a role."""
    user, file = broker.credentials(role, node)
    async with _plain(broker, user, file.read_text(), permissions.inbox_prefix(role, node)) as it:
        yield it


@contextlib.asynccontextmanager
async def administrator(broker: Broker) -> AsyncIterator[Plain]:
    """A plain client that may do everything in the account of the streams."""
    async with _plain(broker, ADMIN, ADMIN, "_INBOX") as it:
        yield it


@contextlib.asynccontextmanager
async def _plain(broker: Broker, user: str, password: str, inbox: str) -> AsyncIterator[Plain]:
    refusals: list[str] = []

    async def on_error(error: Exception) -> None:
        refusals.append(str(error))

    client = await nats.connect(
        broker.url,
        user=user,
        password=password,
        inbox_prefix=inbox,
        error_cb=on_error,
        allow_reconnect=False,
    )
    try:
        yield Plain(client, refusals)
    finally:
        await client.close()


def opened(
    broker: Broker, role: Role, node: str = ""
) -> contextlib.AbstractAsyncContextManager[connection.Bus]:
    """A place on the bus, as a service has it."""
    return connection.open_bus(broker.url, Login(*broker.credentials(role, node)), role, node)


async def make_streams(broker: Broker) -> dict[str, int]:
    """What the controller does at start."""
    async with opened(broker, Role.CONTROLLER) as bus:
        return await ensure.ensure_streams(bus)


def intent(node: str = NODE, mig_config: str = "", store: int = 0) -> Intent:
    """An intent that tests tell apart by its `mig_config`."""
    return Intent(
        stamp=Stamp(node=node, writer="test", store=store),
        sharing=UNSHARED,
        source=Source(kind=SourceKind.NONE),
        state=ConfigState.UNSHARED,
        mig_config=mig_config,
    )


def hold(node: str = NODE, reason: str = "", store: int = 0) -> Hold:
    """A hold that tests tell apart by its `reason`."""
    return Hold(stamp=Stamp(node=node, writer="test", store=store), reason=reason)
