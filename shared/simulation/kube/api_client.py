"""The stand-ins' way to an API server: plain requests, so that any API server will do.

Kubelet and scheduler read through `follow` (list, then watch, then list again after a break) and
write with strategic patches. A server that is away is waited for, as the real ones do.
"""

from __future__ import annotations

import contextlib
import enum
import json
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import aiohttp

from shared.runtime import clock

Object = dict[str, Any]

STRATEGIC: Final = "application/strategic-merge-patch+json"
USER_AGENT: Final = "slicewire-stand-in"  # tells our requests from those of the services
PAUSE: Final = 0.2  # between two tries of a server that is away
_AWAY: Final = frozenset({429, 500, 502, 503, 504})
_EXEC: Final = "v4.channel.k8s.io"


class _Channel(enum.IntEnum):
    """What a message of a running command is, by its first byte."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    STATUS = 3


class ApiRefusedError(Exception):
    """The API server answered, and not with what was asked for."""

    def __init__(self, method: str, path: str, status: Object) -> None:
        self.code = int(status.get("code", 0))
        self.reason = str(status.get("reason", ""))
        super().__init__(f"{method} {path}: {self.code} {status.get('message', self.reason)}")


class CommandFailedError(Exception):
    """A command in a container ended with another status than 0; the text is what it said."""


class _BrokenWatchError(Exception):
    """A watch ended in a way that only a new list mends."""


@dataclass(frozen=True, slots=True)
class Change:
    """An object as it stands after a change; `gone` is its last state."""

    object: Object
    gone: bool = False

    @property
    def uid(self) -> str:
        """The object's uid."""
        return str(self.object["metadata"]["uid"])


class ApiClient:
    """Calls one API server; an async context manager.

    A real one asks who calls: `tls` holds certificates, `headers` what else proves it.
    """

    def __init__(
        self,
        url: str,
        tls: ssl.SSLContext | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._url = url.rstrip("/")
        self._tls = tls
        self._headers = {"User-Agent": USER_AGENT, **(headers or {})}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # No time limit for a whole answer: a watch is one answer.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        connector = aiohttp.TCPConnector(limit=0, ssl=self._tls or True)
        self._session = aiohttp.ClientSession(
            timeout=timeout, connector=connector, headers=self._headers
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str) -> Object:
        """Read one object, or a list."""
        return await self._call("GET", path)

    async def create(self, path: str, body: Object) -> Object:
        """Post an object to its collection (or a Binding, an Eviction to its subresource)."""
        return await self._call("POST", path, body)

    async def patch(self, path: str, body: Object) -> Object:
        """Patch strategically: conditions merge by type, None removes."""
        return await self._call("PATCH", path, body, STRATEGIC)

    async def delete(self, path: str, body: Object) -> Object:
        """Delete with options (grace, preconditions)."""
        return await self._call("DELETE", path, body)

    async def text(self, path: str) -> str:
        """Read what is no object: what a pod shows by way of the API server.

        Raises:
            ApiRefusedError: there is no such page, or nobody to show it.
            OSError: the server is away.
        """
        with _away_is_an_os_error():
            async with self._open().get(self._url + path) as answer:
                status, text = answer.status, await answer.text()
        if status != 200:
            raise ApiRefusedError("GET", path, {"code": status, "message": text})
        return text

    async def run(self, pod: str, command: Sequence[str], container: str) -> str:
        """Run a command in a container of the pod at this path; return what it printed.

        Raises:
            CommandFailedError: it ended with another status than 0, or nobody knows how.
            ApiRefusedError: it was not started.
            OSError: the server is away.
        """
        query = [*(("command", word) for word in command), ("container", container)]
        query += [("stdout", "true"), ("stderr", "true")]
        printed = dict.fromkeys(_Channel, b"")
        try:
            with _away_is_an_os_error():
                async with self._open().ws_connect(
                    f"{self._url}{pod}/exec", params=query, protocols=(_EXEC,), max_msg_size=0
                ) as socket:
                    async for message in socket:
                        if message.type is aiohttp.WSMsgType.BINARY and message.data:
                            printed[_Channel(message.data[0])] += message.data[1:]
        except aiohttp.WSServerHandshakeError as error:
            status = {"code": error.status, "message": error.message}
            raise ApiRefusedError("GET", f"{pod}/exec", status) from error
        ended = json.loads(printed[_Channel.STATUS] or "{}")
        if ended.get("status") != "Success":
            said = printed[_Channel.STDERR].decode(errors="replace").strip()
            raise CommandFailedError(said or str(ended.get("message", "the connection was lost")))
        return printed[_Channel.STDOUT].decode(errors="replace")

    async def follow(
        self, path: str, selector: Mapping[str, str] | None = None
    ) -> AsyncIterator[Change]:
        """Yield every object as it stands, then every change, for ever.

        After a break the collection is listed again, and what is missing is yielded as gone.
        """
        known: dict[str, Object] = {}
        fields = ",".join(f"{field}={value}" for field, value in (selector or {}).items())
        while True:
            listed = await self._call("GET", path, query={"fieldSelector": fields})
            for change in _differences(known, listed.get("items") or []):
                yield _noted(known, change)
            version = listed["metadata"]["resourceVersion"]
            try:
                async for change in self._watch(path, fields, version):
                    yield _noted(known, change)
            except (_BrokenWatchError, aiohttp.ClientError, OSError):
                await clock.sleep(PAUSE)

    async def _watch(self, path: str, fields: str, version: str) -> AsyncIterator[Change]:
        """Yield the changes of one watch request until the server ends it."""
        query = {"watch": "true", "fieldSelector": fields, "resourceVersion": version}
        async with self._open().get(self._url + path, params=query) as answer:
            if answer.status != 200:
                raise _BrokenWatchError
            async for line in answer.content:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise _BrokenWatchError
                if event["type"] != "BOOKMARK":
                    yield Change(event["object"], gone=event["type"] == "DELETED")

    async def _call(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Object:
        """Make one call; try again while the server is away."""
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": content_type}
        while True:
            try:
                async with self._open().request(
                    method, self._url + path, data=data, headers=headers, params=query
                ) as answer:
                    status, content = answer.status, await answer.json(content_type=None)
            except (aiohttp.ClientError, OSError):
                await clock.sleep(PAUSE)
                continue
            if status < 300:
                return dict(content)
            if status not in _AWAY:
                raise ApiRefusedError(method, path, content)
            await clock.sleep(PAUSE)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("use ApiClient as an async context manager")
        return self._session


@contextlib.contextmanager
def _away_is_an_os_error() -> Iterator[None]:
    """Have one kind of error for a server that is away; aiohttp has some that are no OSError."""
    try:
        yield
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError) as error:
        raise ConnectionError(f"the connection was lost: {error}") from error


def _differences(known: Mapping[str, Object], items: list[Object]) -> list[Change]:
    """Say what a new list changes: objects gone first, then all that stand."""
    standing = {item["metadata"]["uid"] for item in items}
    gone = [Change(was, gone=True) for uid, was in known.items() if uid not in standing]
    return gone + [Change(item) for item in items]


def _noted(known: dict[str, Object], change: Change) -> Change:
    """Keep the known objects up to date with a change, and hand it on."""
    if change.gone:
        known.pop(change.uid, None)
    else:
        known[change.uid] = change.object
    return change
