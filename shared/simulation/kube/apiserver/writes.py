"""What a POST, PUT, PATCH or DELETE asks for, to a call on the objects and its answer.

`http` reads a request into `Asked` and calls `Writes.answer`; from there to the answer nothing
awaits, so no other request sees half a write.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shared.simulation.kube.apiserver import (
    encoding,
    forms,
    kinds,
    patches,
    pods,
    queries,
    refusals,
    shapes,
)
from shared.simulation.kube.apiserver.encoding import Json
from shared.simulation.kube.apiserver.forms import Form
from shared.simulation.kube.apiserver.objects import Objects
from shared.simulation.kube.apiserver.paths import Target
from shared.simulation.kube.apiserver.rules import Deletion
from shared.simulation.kube.apiserver.store import Stored


@dataclass(frozen=True)
class Asked:
    """A request that writes: what to, what with, and in which form it is to be answered."""

    method: str
    target: Target
    query: queries.Query
    form: Form
    media_type: str
    body: Any

    @property
    def object(self) -> Json:
        """The body, which must be a JSON object; 400 if it is not."""
        return shapes.as_object(self.body)

    @property
    def where(self) -> tuple[kinds.Kind, str, str]:
        """Kind, namespace and name of the object that is written to."""
        return self.target.kind, self.target.namespace, self.target.name

    @property
    def dry_run(self) -> bool:
        """Whether nothing may be stored."""
        return queries.is_dry_run(self.query)


@dataclass(frozen=True)
class Answer:
    """What goes back: JSON and a status code."""

    body: bytes
    code: int = 200


class Writes:
    """Answers every request that writes."""

    def __init__(self, objects: Objects, now_ns: Callable[[], int]) -> None:
        self._objects = objects
        self._now_ns = now_ns
        self._calls = {
            "POST collection": self._create,
            "DELETE collection": self._delete_collection,
            "PUT object": self._replace,
            "PUT status": self._replace,
            "PATCH object": self._patch,
            "PATCH status": self._patch,
            "DELETE object": self._delete,
            "POST binding": self._bind,
            "POST eviction": self._evict,
        }

    def answer(self, asked: Asked) -> Answer:
        """Do what is asked; 405 where that method does not go with that path."""
        target = asked.target
        at = target.subresource or ("object" if target.name else "collection")
        call = self._calls.get(f"{asked.method} {at}")
        if call is None:
            raise refusals.method_not_allowed()
        return call(asked)

    def _create(self, asked: Asked) -> Answer:
        kind, namespace, _ = asked.where
        body = forms.to_stored(kind, asked.object)
        stored = self._objects.create(kind, namespace, body, dry_run=asked.dry_run)
        return self._shown(asked, stored, 201)

    def _replace(self, asked: Asked) -> Answer:
        kind, namespace, name = asked.where
        missing = self._objects.store.find(kind.stored, (namespace, name)) is None
        if missing and kind is kinds.LEASE:  # the one kind here that a PUT may create
            return self._create(asked)
        body = forms.to_stored(kind, asked.object)
        stored = self._objects.replace(
            kind, namespace, name, body, part=asked.target.subresource, dry_run=asked.dry_run
        )
        return self._shown(asked, stored)

    def _patch(self, asked: Asked) -> Answer:
        kind, namespace, name = asked.where
        body = asked.body
        if isinstance(body, dict):
            body = forms.to_stored(kind, body)
        change = patches.read(asked.media_type, body)
        stored = self._objects.patch(
            kind, namespace, name, change, part=asked.target.subresource, dry_run=asked.dry_run
        )
        return self._shown(asked, stored)

    def _delete(self, asked: Asked) -> Answer:
        kind, namespace, name = asked.where
        deletion, dry_run = _deletion(asked)
        last = self._objects.delete(kind, namespace, name, deletion, dry_run=dry_run)
        gone = self._objects.store.find(kind.stored, (namespace, name)) is None
        if not gone or kind is kinds.POD:
            return self._shown(asked, last)
        uid = last.data()["metadata"]["uid"]
        return _success(200, {"details": {"name": name, "kind": kind.plural, "uid": uid}})

    def _delete_collection(self, asked: Asked) -> Answer:
        kind = asked.target.kind
        selector = queries.selector(asked.target, asked.query)
        deletion, dry_run = _deletion(asked)
        rows = self._objects.store.rows(kind.stored)
        deleted = [
            self._objects.delete(kind, namespace, name, deletion, dry_run=dry_run)
            for (namespace, name), stored in rows
            if selector.matches(stored.traits)
        ]
        metadata = {"resourceVersion": str(self._objects.store.version)}
        return Answer(forms.many(asked.form, kind, deleted, metadata, self._now_ns()))

    def _bind(self, asked: Asked) -> Answer:
        _, namespace, name = asked.where
        node = (asked.object.get("target") or {}).get("name")
        if not isinstance(node, str) or not node:
            raise refusals.bad_request("target.name: Required value: a binding names a node")
        pods.bind(self._objects, namespace, name, node, self._now_ns())
        return _success(201)

    def _evict(self, asked: Asked) -> Answer:
        _, namespace, name = asked.where
        eviction = asked.object
        named = (eviction.get("metadata") or {}).get("name", name)
        if named != name:
            raise refusals.bad_request(
                f"name in URL does not match name in Eviction object: {name} and {named}"
            )
        options = eviction.get("deleteOptions") or {}
        deletion, dry_run = queries.deletion(asked.query, options)
        pods.evict(self._objects, namespace, name, deletion, self._now_ns(), dry_run=dry_run)
        return _success(201)

    def _shown(self, asked: Asked, stored: Stored, code: int = 200) -> Answer:
        return Answer(forms.one(asked.form, asked.target.kind, stored, self._now_ns()), code)


def _deletion(asked: Asked) -> tuple[Deletion, bool]:
    return queries.deletion(asked.query, asked.object if asked.body else {})


def _success(code: int, more: Json | None = None) -> Answer:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return Answer(encoding.encode(status | (more or {"code": code})), code)
