"""Requests to the API server as raw JSON, with deadlines; the only user of kubernetes_asyncio.

The client library gives what is tedious to write again (kubeconfig, in-cluster tokens that
rotate, TLS). Its typed models and its `Watch` are not used: models cost CPU on every event, and
`Watch` resumes at once, for ever, from a resourceVersion that the server has forgotten.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
from kubernetes_asyncio import client, config

from shared.telemetry import catalogue, meters

Json = dict[str, Any]

PLAIN = "application/json"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"  # merges conditions by their type
CALL_TIMEOUT_S = 10.0
AGENT = "slicewire-controller"
IN_CLUSTER = "KUBERNETES_SERVICE_HOST"  # Kubernetes sets it in every container
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")  # of pods and namespaces


class KubeError(Exception):
    """The API server refused a request, or could not be reached (`status` 0)."""

    def __init__(self, status: int, reason: str, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s  # 0: the server has not said

    @property
    def gone(self) -> bool:
        """Whether the point to resume from has been forgotten: list again."""
        return self.status == 410 or self.reason in {"Expired", "Gone"}

    @property
    def missing(self) -> bool:
        """Whether the object does not exist."""
        return self.status == 404

    @property
    def later(self) -> bool:
        """Whether a disruption budget (or a busy server) asks to come again."""
        return self.status == 429

    @property
    def conflict(self) -> bool:
        """Whether somebody else wrote (or made) the object first."""
        return self.status == 409


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    method: str
    path: str
    query: Mapping[str, str]
    timeout: aiohttp.ClientTimeout
    accept: str = PLAIN
    content: str = PLAIN
    body: Json | None = None

    @property
    def verb(self) -> str:
        """What the request does, for counting."""
        return "watch" if "watch" in self.query else self.method.lower()


class Kube:
    """One pool of connections to one API server; its users count by the same `meters`."""

    def __init__(self, api: client.ApiClient, measured: meters.Meters) -> None:
        self._api = api
        self.meters = measured

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Json | None = None,
        accept: str = PLAIN,
        content: str = PLAIN,
    ) -> Json:
        """Send one request and return the object that answers it.

        Raises:
            KubeError: refused, or not reached within the deadline.
        """
        request = _Request(
            method=method,
            path=path,
            query=query or {},
            timeout=aiohttp.ClientTimeout(total=CALL_TIMEOUT_S),
            accept=accept,
            content=content,
            body=body,
        )
        async with self._answer(request) as answer:
            found: Json = await answer.json()
            return found

    async def lines(
        self, path: str, query: Mapping[str, str], *, accept: str, idle_s: float
    ) -> AsyncGenerator[Json, None]:
        """Yield what a watch says, one object a line, until the server ends it.

        A connection that stays silent for `idle_s` counts as dead: nothing else would notice.

        Raises:
            KubeError: refused, cut, or silent for too long.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CALL_TIMEOUT_S, sock_read=idle_s)
        request = _Request(method="GET", path=path, query=query, timeout=timeout, accept=accept)
        async with self._answer(request) as answer:
            async for line in answer.content:
                yield json.loads(line)

    @contextlib.asynccontextmanager
    async def _answer(self, request: _Request) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            async with await self._asked(request) as answer:
                if answer.status >= 300:
                    raise _refusal(answer, await answer.text())
                yield answer
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            said = str(error) or type(error).__name__
            message = f"{request.method} {request.path}: {said}"
            raise KubeError(0, "Unreachable", message) from error

    async def _asked(self, request: _Request) -> aiohttp.ClientResponse:
        """Send a request and count it by what came back, until the answer's body."""
        headers = {"Accept": request.accept, "Content-Type": request.content, "User-Agent": AGENT}
        try:
            await self._api.update_params_for_auth(headers, [], ["BearerToken"])
            answer: aiohttp.ClientResponse = await self._api.rest_client.request(
                request.method,
                f"{self._api.configuration.host}{request.path}",
                query_params=dict(request.query),
                headers=headers,
                body=request.body,
                _preload_content=False,
                _request_timeout=request.timeout,
            )
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            self.meters.count(catalogue.API_REQUESTS, verb=request.verb, outcome="away")
            raise
        outcome = "ok" if answer.status < 300 else str(answer.status)
        self.meters.count(catalogue.API_REQUESTS, verb=request.verb, outcome=outcome)
        return answer


def _refusal(answer: aiohttp.ClientResponse, text: str) -> KubeError:
    status, wait = answer.status, answer.headers.get("Retry-After", "")
    retry_after_s = float(wait) if wait.isdecimal() else 0.0
    try:
        body = json.loads(text)
    except ValueError:
        said = f"the API server answered {status}: {text[:200]}"
        return KubeError(status, "", said, retry_after_s)
    return refusal_of(body, status, retry_after_s)


def refusal_of(body: Any, status: int = 0, retry_after_s: float = 0.0) -> KubeError:
    """Read a Status object, as refused requests and ERROR events of watches carry it."""
    said = body if isinstance(body, dict) else {}
    return KubeError(
        int(said.get("code", status)),
        str(said.get("reason", "")),
        str(said.get("message", f"the API server answered {status}")),
        retry_after_s,
    )


def pod_path(namespace: str, name: str) -> str:
    """Where the API server has a pod.

    Names of pods come from nodes as well, which must not lead to another place.

    Raises:
        KubeError: no pod can be called so.
    """
    if not (_NAME.fullmatch(namespace) and _NAME.fullmatch(name)):
        raise KubeError(404, "NotFound", f"no pod can be called {f'{namespace}/{name}'[:200]!r}")
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def missing(api_url: str, kube_config: str, environ: Mapping[str, str]) -> str:
    """Say why there is no way to an API server from here; empty when there is one.

    Called before there is a loop.
    """
    if api_url:
        plain = api_url.startswith(("http://", "https://"))
        return "" if plain else f"--api-url {api_url} is no address: write http://HOST:PORT"
    if kube_config:
        return _of_no_use(kube_config)
    if IN_CLUSTER in environ:
        return ""
    return "this is no pod of a cluster, so say where the API server is: --kube-config FILE"


def _of_no_use(path: str) -> str:
    if not pathlib.Path(path).is_file():
        return f"there is no kubeconfig file {path}"
    try:
        asyncio.run(config.load_kube_config(path, client_configuration=client.Configuration()))
    except (TypeError, AttributeError, LookupError):  # the client asks nothing before it takes
        return f"the kubeconfig file {path} cannot be used: it is none"
    except Exception as error:  # the client's own, YAML's, and those of programs that it runs
        return f"the kubeconfig file {path} cannot be used: {' '.join(str(error).split())}"
    return ""


@contextlib.asynccontextmanager
async def connect(
    api_url: str, kube_config: str, measured: meters.Meters = meters.NOTHING
) -> AsyncIterator[Kube]:
    """Open the pool: to a plain address, else by a kubeconfig, else with the pod's own account.

    Reads files once, before anything is served.
    """
    configuration = client.Configuration()
    if api_url:
        configuration.host = api_url.rstrip("/")
    elif kube_config:
        await config.load_kube_config(kube_config, client_configuration=configuration)
    else:
        config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]
    async with client.ApiClient(configuration) as api:
        yield Kube(api, measured)
