"""Lists and registrations of each node's allocator, from the metrics that its pods show.

A process that starts anew counts from 0; what is kept here only grows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator

from services.rehearsal.real.parts import Parts

LISTS, REGISTRATIONS = "slicewire_lists_total", "slicewire_registrations_total"
_ROW = re.compile(rf'^({LISTS}|{REGISTRATIONS})\{{.*resource="([^"]*)".*\}} (\S+)$', re.M)
Key = tuple[str, str, str]  # pod's uid, metric, resource


class Counters:
    """Looks at the pages; `begin` once, then as often as somebody wants to know."""

    def __init__(self, parts: Parts, nodes: tuple[str, ...]) -> None:
        self._parts = parts
        self._nodes = nodes
        self._last: dict[Key, int] = {}
        self._totals: Counter[tuple[str, str]] = Counter()  # by node and metric

    async def begin(self) -> None:
        """Count what stands as a story on a new cluster would: one registration a resource.

        A resource that is served no more counts for nothing, though its row stays on the page.
        """
        said = {each["name"]: each for each in (await self._parts.ask("status"))["nodes"]}
        for node in self._nodes:
            served = said.get(node, {}).get("resources", {})
            async for key, value in self._rows(node):
                self._last[key] = value
                _, metric, resource = key
                if metric == REGISTRATIONS and value and resource in served:
                    self._totals[node, REGISTRATIONS] += 1

    async def look(self, node: str) -> None:
        """Take in what has been counted on a node since."""
        async for key, value in self._rows(node):
            before = self._last.get(key, 0)
            self._last[key] = value
            self._totals[node, key[1]] += value - before if value >= before else value

    def total(self, node: str, metric: str) -> int:
        """What a node's allocators have counted so far."""
        return self._totals[node, metric]

    async def _rows(self, node: str) -> AsyncIterator[tuple[Key, int]]:
        for pod in self._parts.pods("allocator", node):
            for metric, resource, value in rows(await self._parts.page(pod)):
                yield (pod["metadata"]["uid"], metric, resource), value


def rows(page: str) -> Iterator[tuple[str, str, int]]:
    """Metric, resource and value of each row that counts here; pure."""
    for metric, resource, value in _ROW.findall(page):
        yield metric, resource, int(float(value))
