"""One HTTP request to one call on the objects, and its result to one answer.

`ApiServer` hands every request to `Handler.handle`, which counts it, lets the fault hook have its
way, and turns refusals into Status bodies. Everything between reading the body and answering is
synchronous.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from shared.simulation.kube.apiserver import (
    discovery,
    encoding,
    forms,
    kinds,
    patches,
    paths,
    pods,
    queries,
    refusals,
    reviews,
    watching,
)
from shared.simulation.kube.apiserver.encoding import Json
from shared.simulation.kube.apiserver.faults import Call, DropAnswer, Fault, Hook, Refuse
from shared.simulation.kube.apiserver.forms import Form
from shared.simulation.kube.apiserver.objects import Objects
from shared.simulation.kube.apiserver.pages import Pages
from shared.simulation.kube.apiserver.paths import Target
from shared.simulation.kube.apiserver.refusals import Refused
from shared.simulation.kube.apiserver.store import Stored

BODY_LIMIT = 3 * 1024 * 1024
WATCH_LASTS = (1800.0, 3600.0)
_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})


@dataclass
class Counters:
    """What a rehearsal asks about: all requests so far, and the watches open now."""

    requests: int = 0
    watches: int = 0


class Handler:
    """Answers the requests of one server."""

    def __init__(
        self,
        objects: Objects,
        pages: Pages,
        *,
        tokens: reviews.Tokens,
        bookmark_every: float,
        now_ns: Callable[[], int],
        rng: random.Random,
        hook: Callable[[], Hook | None],
    ) -> None:
        self.counters = Counters()
        self._objects = objects
        self._pages = pages
        self._tokens = tokens
        self._bookmark_every = bookmark_every
        self._now_ns = now_ns
        self._rng = rng
        self._hook = hook

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request, whatever comes of it."""
        self.counters.requests += 1
        try:
            fault = await self._fault(request)
            answer = await self._route(request, fault)
        except Refused as refused:
            return _refusal(refused)
        except web.HTTPRequestEntityTooLarge:
            message = f"Request entity too large: limit is {BODY_LIMIT}"
            return _refusal(Refused(413, message))
        if isinstance(fault, DropAnswer):
            watching.drop_connection(request)
        return answer

    async def _fault(self, request: web.Request) -> Fault | None:
        hook = self._hook()
        if hook is None:
            return None
        fault = await hook(Call(request.method, request.path, request.query))
        if isinstance(fault, Refuse):
            message = f"refused by a fault with {fault.code}"
            raise Refused(fault.code, message, retry_after=fault.retry_after)
        return fault

    async def _route(self, request: web.Request, fault: Fault | None) -> web.StreamResponse:
        found = paths.split(request.path)
        if found is None:
            return _discover(request)
        group_version, steps = found
        review = reviews.find(group_version, steps[0])
        if review is not None and request.method == "POST":
            answer = reviews.answer(review, await _body(request), self._tokens)
            return _json(encoding.encode(answer), 201)
        target = paths.target(group_version, steps)
        if request.method == "GET":
            return await self._get(request, target, fault)
        call = self._call(request.method, target)
        body = await _any_body(request)
        return call(request, target, body)

    def _call(
        self, method: str, target: Target
    ) -> Callable[[web.Request, Target, Any], web.Response]:
        if target.subresource in {"binding", "eviction"}:
            of_pods = {"binding": self._bind, "eviction": self._evict}
            if method == "POST":
                return of_pods[target.subresource]
        elif target.name:
            calls = {"PUT": self._replace, "PATCH": self._patch, "DELETE": self._delete}
            if method in calls and not (method == "DELETE" and target.subresource):
                return calls[method]
        elif method in {"POST", "DELETE"}:
            return self._create if method == "POST" else self._delete_collection
        raise Refused(405, "the server does not allow this method on the requested resource")

    # ------------------------------------------------------------------ reading

    async def _get(
        self, request: web.Request, target: Target, fault: Fault | None
    ) -> web.StreamResponse:
        form = forms.negotiate(request.headers.get("Accept", ""))
        if target.subresource in {"binding", "eviction"}:
            raise Refused(405, "the server does not allow this method on the requested resource")
        if target.name:
            return self._answer(
                request, target, self._objects.read(target.kind, target.namespace, target.name)
            )
        if queries.is_watch(request.query):
            return await self._watch(request, target, form, fault)
        page = self._pages.page(target.kind.stored, queries.list_query(target, request.query))
        return _json(forms.many(form, target.kind, page.items, page.metadata, self._now_ns()))

    async def _watch(
        self, request: web.Request, target: Target, form: Form, fault: Fault | None
    ) -> web.StreamResponse:
        query = queries.watch_query(target, request.query)
        watch = watching.Watch(
            self._objects.store,
            watching.Lines(target.kind, form, query.selector, self._now_ns),
            query,
            lasts=query.timeout or self._rng.uniform(*WATCH_LASTS),
            bookmark_every=self._bookmark_every,
            fault=fault,
        )
        self.counters.watches += 1
        try:
            return await watch.serve(request)
        finally:
            self.counters.watches -= 1

    # ------------------------------------------------------------------ writing

    def _create(self, request: web.Request, target: Target, body: Any) -> web.Response:
        _require_json(request)
        wanted = forms.to_stored(target.kind, _object(body))
        dry_run = queries.is_dry_run(request.query)
        stored = self._objects.create(target.kind, target.namespace, wanted, dry_run=dry_run)
        return self._answer(request, target, stored, 201)

    def _replace(self, request: web.Request, target: Target, body: Any) -> web.Response:
        _require_json(request)
        kind, namespace, name = target.kind, target.namespace, target.name
        wanted = forms.to_stored(kind, _object(body))
        dry_run = queries.is_dry_run(request.query)
        missing = self._objects.store.find(kind.stored, (namespace, name)) is None
        if missing and kind is kinds.LEASE:  # the one kind here that a PUT may create
            return self._create(request, target, body)
        stored = self._objects.replace(
            kind, namespace, name, wanted, part=target.subresource, dry_run=dry_run
        )
        return self._answer(request, target, stored)

    def _patch(self, request: web.Request, target: Target, body: Any) -> web.Response:
        wanted = forms.to_stored(target.kind, body) if isinstance(body, dict) else body
        stored = self._objects.patch(
            target.kind,
            target.namespace,
            target.name,
            patches.read(_media_type(request), wanted),
            part=target.subresource,
            dry_run=queries.is_dry_run(request.query),
        )
        return self._answer(request, target, stored)

    def _delete(self, request: web.Request, target: Target, body: Any) -> web.Response:
        kind, namespace, name = target.kind, target.namespace, target.name
        deletion, dry_run = queries.deletion(request.query, _object(body or {}))
        last = self._objects.delete(kind, namespace, name, deletion, dry_run=dry_run)
        gone = self._objects.store.find(kind.stored, (namespace, name)) is None
        if not gone or kind is kinds.POD:
            return self._answer(request, target, last)
        uid = last.data()["metadata"]["uid"]
        return _success(200, {"name": name, "kind": kind.plural, "uid": uid})

    def _delete_collection(self, request: web.Request, target: Target, body: Any) -> web.Response:
        selector = queries.selector(target, request.query)
        deletion, dry_run = queries.deletion(request.query, _object(body or {}))
        rows = self._objects.store.rows(target.kind.stored)
        keys = [key for key, stored in rows if selector.matches(stored.traits)]
        gone = [
            self._objects.delete(target.kind, namespace, name, deletion, dry_run=dry_run)
            for namespace, name in keys
        ]
        metadata = {"resourceVersion": str(self._objects.store.version)}
        return _json(forms.many(Form.OBJECT, target.kind, gone, metadata, self._now_ns()))

    def _bind(self, request: web.Request, target: Target, body: Any) -> web.Response:
        _require_json(request)
        node = (_object(body).get("target") or {}).get("name")
        if not isinstance(node, str) or not node:
            raise refusals.bad_request("target.name: Required value: a binding names a node")
        pods.bind(self._objects, target.namespace, target.name, node, self._now_ns())
        return _success(201)

    def _evict(self, request: web.Request, target: Target, body: Any) -> web.Response:
        _require_json(request)
        eviction = _object(body)
        named = (eviction.get("metadata") or {}).get("name", target.name)
        if named != target.name:
            raise refusals.bad_request(
                f"name in URL does not match name in Eviction object: {target.name} and {named}"
            )
        options = eviction.get("deleteOptions") or {}
        deletion, dry_run = queries.deletion(request.query, options)
        pods.evict(self._objects, target.namespace, target.name, deletion, dry_run=dry_run)
        return _success(201)

    def _answer(
        self, request: web.Request, target: Target, stored: Stored, code: int = 200
    ) -> web.Response:
        form = forms.negotiate(request.headers.get("Accept", ""))
        return _json(forms.one(form, target.kind, stored, self._now_ns()), code)


def _discover(request: web.Request) -> web.Response:
    if request.path in _HEALTH:
        return web.Response(text="ok")
    document = discovery.document(request.path)
    if document is None:
        raise refusals.no_such_resource()
    return _json(encoding.encode(document))


def _media_type(request: web.Request) -> str:
    return request.headers.get("Content-Type", "").partition(";")[0].strip()


def _require_json(request: web.Request) -> None:
    if _media_type(request) not in {"", forms.JSON_TYPE}:
        raise refusals.unsupported_media((forms.JSON_TYPE,))


async def _body(request: web.Request) -> Json:
    _require_json(request)
    return _object(await _any_body(request))


async def _any_body(request: web.Request) -> Any:
    raw = await request.read()
    if not raw:
        return None
    try:
        return encoding.decode(raw)
    except ValueError as error:
        raise refusals.bad_request(f"the body of the request is not JSON: {error}") from None


def _object(body: Any) -> Json:
    if not isinstance(body, dict):
        raise refusals.bad_request("the body of the request must be a JSON object")
    return body


def _json(body: bytes, code: int = 200) -> web.Response:
    return web.Response(body=body, status=code, content_type=forms.JSON_TYPE)


def _success(code: int, details: Json | None = None) -> web.Response:
    status: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    about: Json = {"details": details} if details else {"code": code}
    return _json(encoding.encode(status | about), code)


def _refusal(refused: Refused) -> web.Response:
    answer = _json(encoding.encode(refused.body()), refused.code)
    if refused.retry_after is not None:
        answer.headers["Retry-After"] = str(refused.retry_after)
    return answer
