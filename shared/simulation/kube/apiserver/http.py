"""HTTP requests to calls, and what comes of them to HTTP answers.

`ApiServer` hands every request to `Handler.handle`, which counts it, lets the fault hook have its
way, and turns refusals into Status bodies.
"""

from __future__ import annotations

import collections
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from shared.simulation.kube.apiserver import (
    discovery,
    encoding,
    forms,
    patches,
    paths,
    queries,
    refusals,
    reviews,
    shapes,
    watching,
)
from shared.simulation.kube.apiserver.faults import Call, DropAnswer, Fault, Hook, Refuse
from shared.simulation.kube.apiserver.forms import Form
from shared.simulation.kube.apiserver.objects import Objects
from shared.simulation.kube.apiserver.pages import Pages
from shared.simulation.kube.apiserver.paths import Target
from shared.simulation.kube.apiserver.refusals import Refused
from shared.simulation.kube.apiserver.writes import Asked, Writes

BODY_LIMIT = 3 * 1024 * 1024
WATCH_LASTS = (1800.0, 3600.0)
_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})
# without a Content-Type a body is JSON, but no patch; nobody says what the body of a DELETE is
_ACCEPTED = {
    "POST": (forms.JSON_TYPE, ""),
    "PUT": (forms.JSON_TYPE, ""),
    "PATCH": patches.MEDIA_TYPES,
}
_READABLE_PARTS = frozenset({"", "status"})


@dataclass
class Counters:
    """What a rehearsal asks about: requests so far and watches open now, by User-Agent."""

    requests: collections.Counter[str] = field(default_factory=collections.Counter)
    watches: collections.Counter[str] = field(default_factory=collections.Counter)


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
        self._writes = Writes(objects, now_ns)
        self._pages = pages
        self._tokens = tokens
        self._bookmark_every = bookmark_every
        self._now_ns = now_ns
        self._rng = rng
        self._hook = hook

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request, whatever comes of it."""
        self.counters.requests[_agent(request)] += 1
        try:
            fault = await self._fault(request)
            answer = await self._route(request, fault)
        except Refused as refused:
            return _refusal(refused)
        except web.HTTPRequestEntityTooLarge:
            return _refusal(Refused(413, f"Request entity too large: limit is {BODY_LIMIT}"))
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
            question = shapes.as_object(await _read(request))
            answer = reviews.answer(review, question, self._tokens)
            return _json(encoding.encode(answer), 201)
        target = paths.target(group_version, steps)
        form = forms.negotiate(request.headers.get("Accept", ""))
        if request.method == "GET":
            return await self._get(request, target, form, fault)
        body = await _read(request)
        asked = Asked(request.method, target, request.query, form, _media_type(request), body)
        written = self._writes.answer(asked)
        return _json(written.body, written.code)

    async def _get(
        self, request: web.Request, target: Target, form: Form, fault: Fault | None
    ) -> web.StreamResponse:
        if target.subresource not in _READABLE_PARTS:
            raise refusals.method_not_allowed()
        kind = target.kind
        if target.name:
            stored = self._objects.read(kind, target.namespace, target.name)
            return _json(forms.one(form, kind, stored, self._now_ns()))
        if queries.is_watch(request.query):
            return await self._watch(request, target, form, fault)
        page = self._pages.page(kind.stored, queries.list_query(target, request.query))
        return _json(forms.many(form, kind, page.items, page.metadata, self._now_ns()))

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
        self.counters.watches[_agent(request)] += 1
        try:
            return await watch.serve(request)
        finally:
            self.counters.watches[_agent(request)] -= 1


def _discover(request: web.Request) -> web.Response:
    if request.path in _HEALTH:
        return web.Response(text="ok")
    document = discovery.document(request.path)
    if document is None:
        raise refusals.no_such_resource()
    return _json(encoding.encode(document))


async def _read(request: web.Request) -> Any:
    """Return the JSON of a body, None if there is no body; 415 for another format."""
    accepted = _ACCEPTED.get(request.method)
    if accepted is not None and _media_type(request) not in accepted:
        raise refusals.unsupported_media(accepted)
    raw = await request.read()
    if not raw:
        return None
    try:
        return encoding.decode(raw)
    except ValueError as error:
        raise refusals.bad_request(f"the body of the request is not JSON: {error}") from None


def _agent(request: web.Request) -> str:
    return request.headers.get("User-Agent", "")


def _media_type(request: web.Request) -> str:
    return request.headers.get("Content-Type", "").partition(";")[0].strip()


def _json(body: bytes, code: int = 200) -> web.Response:
    return web.Response(body=body, status=code, content_type=forms.JSON_TYPE)


def _refusal(refused: Refused) -> web.Response:
    answer = _json(encoding.encode(refused.body()), refused.code)
    if refused.retry_after is not None:
        answer.headers["Retry-After"] = str(refused.retry_after)
    return answer
