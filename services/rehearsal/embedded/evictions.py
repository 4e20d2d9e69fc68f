"""Which pods have been evicted, by the mark that the API server leaves on them until they go."""

from __future__ import annotations

from shared.simulation.kube.apiserver import kinds
from shared.simulation.kube.apiserver.kinds import Kind
from shared.simulation.kube.apiserver.pods import EVICTED
from shared.simulation.kube.apiserver.store import Change, ChangeType, Key, Store


class Evictions:
    """Watches a store from inside; a pod made again under its name has not been evicted."""

    def __init__(self, store: Store) -> None:
        self._evicted: set[str] = set()
        store.observers.append(self._see)

    def __contains__(self, pod: str) -> bool:
        """Whether `namespace/name` has been evicted."""
        return pod in self._evicted

    def _see(self, kind: Kind, key: Key, change: Change) -> None:
        if kind is not kinds.POD:
            return
        if change.type is ChangeType.ADDED:
            self._evicted.discard("/".join(key))
        elif any(
            EVICTED.items() <= condition.items()
            for condition in change.stored.data()["status"].get("conditions", ())
        ):
            self._evicted.add("/".join(key))
