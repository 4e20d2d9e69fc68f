"""Lists in pages: a token stands for the state that the first page was taken from.

`http` asks for a page a request. The last few states are kept as references to stored objects;
a token whose state is gone is answered 410 Expired, so that clients begin anew.
"""

from __future__ import annotations

import base64
import collections
from dataclasses import dataclass, field

from shared.simulation.kube.apiserver import encoding, refusals
from shared.simulation.kube.apiserver.encoding import Json
from shared.simulation.kube.apiserver.kinds import Kind
from shared.simulation.kube.apiserver.queries import ListQuery
from shared.simulation.kube.apiserver.store import Key, Rows, Store, Stored

STATES_KEPT = 16
_TOO_OLD = "The provided continue parameter is too old to display a consistent list result."


@dataclass(frozen=True)
class Page:
    """One page: its objects and the metadata of the list."""

    items: list[Stored]
    metadata: Json = field(default_factory=dict)


class Pages:
    """Cuts lists into pages and remembers the states that tokens stand for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._states: collections.OrderedDict[tuple[Kind, int], Rows] = collections.OrderedDict()

    def forget(self) -> None:
        """Let every token expire."""
        self._states.clear()

    def page(self, kind: Kind, query: ListQuery) -> Page:
        """Return the page that a query asks for; 504 for a state that has not come yet."""
        if query.not_before > self._store.version:
            raise refusals.from_the_future(query.not_before, self._store.version)
        version, rows, after = self._state(kind, query.token)
        rest = [
            (key, stored)
            for key, stored in rows
            if (after is None or key > after) and query.selector.matches(stored.traits)
        ]
        metadata: Json = {"resourceVersion": str(version)}
        if query.limit and len(rest) > query.limit:
            self._remember(kind, version, rows)
            metadata["continue"] = _token(version, rest[query.limit - 1][0])
            if not (query.selector.labels or query.selector.fields):
                metadata["remainingItemCount"] = len(rest) - query.limit
            rest = rest[: query.limit]
        return Page([stored for _, stored in rest], metadata)

    def _state(self, kind: Kind, token: str) -> tuple[int, Rows, Key | None]:
        if not token:
            return self._store.version, self._store.rows(kind), None
        version, after = _read_token(token)
        rows = self._states.get((kind, version))
        if rows is None:
            raise refusals.Refused(410, _TOO_OLD)
        return version, rows, after

    def _remember(self, kind: Kind, version: int, rows: Rows) -> None:
        self._states[kind, version] = rows
        while len(self._states) > STATES_KEPT:
            self._states.popitem(last=False)


def _token(version: int, after: Key) -> str:
    return base64.urlsafe_b64encode(encoding.encode([version, *after])).decode()


def _read_token(token: str) -> tuple[int, Key]:
    try:
        version, namespace, name = encoding.decode(base64.urlsafe_b64decode(token))
    except (ValueError, TypeError):
        raise refusals.bad_request("continue key is not valid: it was not made here") from None
    return version, (namespace, name)
