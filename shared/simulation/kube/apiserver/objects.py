"""Reading and writing of objects: rules applied to the store, one synchronous step a call.

The HTTP side calls it for every request; rehearsals and tests that share the process call it to
set a scene. Whatever is refused raises `Refused`; whatever is returned is stored (or, in a dry
run, would have been).
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable

from shared.simulation.kube.apiserver import kinds, moments, refusals, rules
from shared.simulation.kube.apiserver.encoding import Json
from shared.simulation.kube.apiserver.kinds import Kind
from shared.simulation.kube.apiserver.rules import Deletion
from shared.simulation.kube.apiserver.store import ChangeType, Store, Stored, seal

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
AS_IT_IS = Deletion()


class Objects:
    """All objects of the server, to be created, changed and deleted under its rules."""

    def __init__(self, store: Store, now_ns: Callable[[], int], rng: random.Random) -> None:
        self.store = store
        self._now_ns = now_ns
        self._rng = rng

    def read(self, kind: Kind, namespace: str, name: str) -> Stored:
        """Return one object; 404 where there is none."""
        stored = self.store.find(kind.stored, (namespace, name))
        if stored is None:
            raise refusals.not_found(kind, name)
        return stored

    def create(self, kind: Kind, namespace: str, body: Json, *, dry_run: bool = False) -> Stored:
        """Create an object; the body stays as it is."""
        if kind.namespaced:
            self.read(kinds.NAMESPACE, "", namespace)
        data = rules.born(kind, namespace, body, self._birth())
        metadata = data["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        if self.store.find(kind.stored, key):
            raise refusals.already_exists(kind, metadata["name"])
        if dry_run:
            return seal(kind.stored, data, self.store.version)
        return self.store.commit(kind.stored, key, data, ChangeType.ADDED)

    def _birth(self) -> rules.Birth:
        return rules.Birth(
            uid=str(uuid.UUID(int=self._rng.getrandbits(128), version=4)),
            at=moments.to_time(self._now_ns()),
            suffix="".join(self._rng.choices(_SUFFIX_LETTERS, k=5)),
        )

    def replace(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        body: Json,
        *,
        part: str = "",
        dry_run: bool = False,
    ) -> Stored:
        """Put a whole object in place of the old one (its status, where part is "status")."""
        rules.check_body(kind, body)
        old = self.read(kind, namespace, name)
        new = rules.updated(kind, old.data(), body, part=part)
        return self._write(kind, old, new, dry_run=dry_run)

    def patch(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        change: Callable[[Json], Json],
        *,
        part: str = "",
        dry_run: bool = False,
    ) -> Stored:
        """Change an object by a function of its dict, for example one from `patches.read`."""
        old = self.read(kind, namespace, name)
        wanted = change(old.data())
        was = old.data()  # a second copy: the wanted object may share parts of the first
        rules.check_patched(kind, was, wanted)
        return self._write(kind, old, rules.updated(kind, was, wanted, part=part), dry_run=dry_run)

    def _write(self, kind: Kind, old: Stored, new: Json, *, dry_run: bool) -> Stored:
        if new == old.data():  # no change, no new version, no event
            return old
        if dry_run:
            return seal(kind.stored, new, old.version)
        over = rules.is_over(new)
        key = (new["metadata"].get("namespace", ""), new["metadata"]["name"])
        change_type = ChangeType.DELETED if over else ChangeType.MODIFIED
        return self.store.commit(kind.stored, key, new, change_type)

    def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        deletion: Deletion = AS_IT_IS,
        *,
        dry_run: bool = False,
    ) -> Stored:
        """Delete an object, or mark it where finalizers or grace still hold it."""
        stored = self.read(kind, namespace, name)
        old = stored.data()
        marked = rules.deleted(kind, old, deletion, self._now_ns())
        if dry_run or marked == old:
            return stored
        key = (namespace, name)
        if marked is not None:
            return self.store.commit(kind.stored, key, marked, ChangeType.MODIFIED)
        last = self.store.commit(kind.stored, key, old, ChangeType.DELETED)
        if kind is kinds.NAMESPACE:
            self._empty(name)
        return last

    def _empty(self, namespace: str) -> None:
        # the namespace controller's part, at once and without grace
        for kind in kinds.STORED:
            for key, stored in self.store.rows(kind):
                if kind.namespaced and key[0] == namespace:
                    self.store.commit(kind, key, stored.data(), ChangeType.DELETED)
