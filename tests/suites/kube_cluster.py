"""A Kubernetes API to be held to the suite: how to reach it, and how to make it forget.

`kube_api` runs its checks against one of these; a fixture makes it of the embedded server or of a
real one.
"""

from __future__ import annotations

import asyncio
import functools
import io
import json
import pathlib
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from kubernetes_asyncio import client

Json = dict[str, Any]
EVENTS_LIMIT = 1000


@dataclass(frozen=True)
class Credentials:
    """Files with which an administrator shows himself to a server that speaks TLS."""

    authority: pathlib.Path
    certificate: pathlib.Path
    key: pathlib.Path

    def context(self) -> ssl.SSLContext:
        """The same for a client that takes a context."""
        context = ssl.create_default_context(cafile=str(self.authority))
        context.load_cert_chain(self.certificate, self.key)
        return context


@dataclass
class Cluster:
    """One API server under test.

    Attributes:
        address: where it answers.
        restart: stops it and starts it again at the same address, with its objects.
        compact: makes it forget all changes, so that older resourceVersions are too old.
        run: a word in the name of everything that this run creates.
        credentials: none where the server takes everybody for an administrator.
    """

    address: str
    restart: Callable[[], Awaitable[None]]
    compact: Callable[[], Awaitable[None]]
    run: str = "suite"
    credentials: Credentials | None = None
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack, repr=False)

    async def __aenter__(self) -> Cluster:
        response = await self.request(
            "POST", "/api/v1/namespaces", {"metadata": {"name": self.run}}
        )
        assert response.status == 201, await response.text()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @functools.cached_property
    def session(self) -> aiohttp.ClientSession:
        """For requests as they are, without the client's help."""
        tls = self.credentials.context() if self.credentials else True
        session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls))
        self._stack.push_async_callback(session.close)
        return session

    @functools.cached_property
    def api(self) -> client.ApiClient:
        """The Python client; made when it is asked for, since that takes 50 ms."""
        configuration = client.Configuration(host=self.address)
        if self.credentials:
            configuration.ssl_ca_cert = str(self.credentials.authority)
            configuration.cert_file = str(self.credentials.certificate)
            configuration.key_file = str(self.credentials.key)
        api = client.ApiClient(configuration)
        self._stack.push_async_callback(api.close)
        return api

    # typed as Any: the client takes dicts as bodies, which its annotations do not say

    @property
    def core(self) -> Any:
        """The client of the core group."""
        return client.CoreV1Api(self.api)

    @property
    def coordination(self) -> Any:
        """The client of leases."""
        return client.CoordinationV1Api(self.api)

    @property
    def policy(self) -> Any:
        """The client of disruption budgets."""
        return client.PolicyV1Api(self.api)

    @property
    def events(self) -> Any:
        """The client of Events by their new names."""
        return client.EventsV1Api(self.api)

    @property
    def authentication(self) -> Any:
        """The client of token reviews."""
        return client.AuthenticationV1Api(self.api)

    def name(self, word: str) -> str:
        """Return a name that only this run uses."""
        return f"{self.run}-{word}"

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        query: Sequence[tuple[str, str]] = (),
    ) -> aiohttp.ClientResponse:
        """Send a request as it is; its response closes with us."""
        text = body if isinstance(body, str) else json.dumps(body)
        response = await self.session.request(
            method,
            self.address + path,
            headers={"Accept": accept, "Content-Type": content_type},
            data=None if body is None else io.BytesIO(text.encode()),
            params=list(query),
        )
        self._stack.callback(response.close)
        return response

    async def read(self, path: str, **how: Any) -> Json:
        """GET a path and return its JSON."""
        response = await self.request("GET", path, **how)
        found: Json = await response.json()
        return found

    async def watch(
        self,
        path: str,
        query: Mapping[str, str],
        *,
        until: Callable[[Json], bool] = lambda _: True,
        within: float = 5.0,
        accept: str = "application/json",
    ) -> list[Json]:
        """Return the events of a watch up to the one that is waited for, or all if it ends."""
        asked = [("watch", "true"), *query.items()]
        response = await self.request("GET", path, accept=accept, query=asked)
        events: list[Json] = []
        try:
            async with asyncio.timeout(within):
                while line := await response.content.readline():
                    events.append(json.loads(line))
                    if until(events[-1]) or len(events) >= EVENTS_LIMIT:
                        break
        finally:
            response.close()
        return events


async def refused(call: Awaitable[object], code: int) -> Json:
    """Return the Status with which the API refuses a call of the client; its code must be this."""
    with pytest.raises(client.ApiException) as caught:
        await call
    assert caught.value.status == code, caught.value
    assert caught.value.body is not None
    status: Json = json.loads(caught.value.body)
    return status


def node(name: str, **labels: str) -> Json:
    """Return the body of a node."""
    return {"metadata": {"name": name, "labels": labels or {"a": "b"}}}


def pod(name: str, **labels: str) -> Json:
    """Return the body of a pod that no scheduler will place, or write anything about."""
    return {
        "metadata": {"name": name, "labels": labels or {"app": name}},
        "spec": {
            "schedulerName": "nobody",
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "i:1"}],
        },
    }


async def bound_pod(cluster: Cluster, name: str, **labels: str) -> None:
    """Create a pod that is bound to a node and ready."""
    await cluster.core.create_namespaced_pod(cluster.run, pod(name, **labels))
    await bind(cluster, name)
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await cluster.core.patch_namespaced_pod_status(name, cluster.run, {"status": ready})


async def bind(cluster: Cluster, name: str) -> tuple[int, Json]:
    """Bind a pod to the run's node, which need not exist; return code and Status."""
    target = {"apiVersion": "v1", "kind": "Node", "name": cluster.name("node")}
    return await _post(cluster, name, "binding", {"target": target})


async def evict(cluster: Cluster, name: str, options: Json | None = None) -> tuple[int, Json]:
    """Ask for the eviction of a pod; return code and Status."""
    return await _post(cluster, name, "eviction", {"deleteOptions": options or {}})


async def _post(cluster: Cluster, name: str, part: str, body: Json) -> tuple[int, Json]:
    # sent as it is: the answer is a Status where the client's types say Binding and Eviction
    path = f"/api/v1/namespaces/{cluster.run}/pods/{name}/{part}"
    response = await cluster.request("POST", path, {"metadata": {"name": name}, **body})
    return response.status, await response.json()
